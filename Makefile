# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# `make help` lists the targets. Nothing has to be typed before them.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Extra arguments for the playbooks, such as ARGS="-e @my-pools.yml".
ARGS ?=
# PYTHON=/path/to/python3 sets the interpreter for .venv; without it the newest suitable one is taken.
export PYTHON
# This checkout's ansible.cfg and .venv decide, whatever the caller's shell has set.
unexport ANSIBLE_CONFIG ANSIBLE_COLLECTIONS_PATH PYTHONPATH
RUN := .venv/bin
# Each target makes .venv if need be.
.NOTPARALLEL:

# What `make test` runs: names of checks or groups, such as CHECKS="types docs"; without it all of them.
CHECKS ?=

.PHONY: help lab test lint unit sanity integration programs script readmes rule-pages guide-runs checks clean distclean venv venv-test

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab: venv ## Set everything up and run the lab (your own: ARGS="-e @my-pools.yml")
	$(RUN)/ansible-playbook playbooks/lab.yml $(ARGS)

# A group of checks is a name that tests/run_checks.py knows; `make test CHECKS=...` runs single ones.
test: $(if $(CHECKS),,programs) venv-test ## Run all checks and tests, and sum up (single ones: CHECKS="types docs"; which: make checks)
	$(RUN)/python tests/run_checks.py $(CHECKS)

checks: ## List the checks by group and name
	@python3 tests/run_checks.py --list

lint: venv-test ## Run the checks that need no cluster and no other Python: style, types, docs, licences
	$(RUN)/python tests/run_checks.py lint

unit: venv-test ## Run the unit tests, on the newest and the oldest ansible-core
	$(RUN)/python tests/run_checks.py unit

sanity: venv-test ## Run ansible-test sanity, on both
	$(RUN)/python tests/run_checks.py sanity

integration: programs venv-test ## Run the tests against real control planes
	$(RUN)/python tests/run_checks.py integration

programs: venv ## Have the programs of the control plane and start nothing
	$(RUN)/ansible-playbook playbooks/programs.yml $(ARGS)

script: venv ## Make roles/check/files/check-config.sh anew from the rules
	$(RUN)/python tests/make_script.py

readmes: venv ## Make the roles' READMEs anew from their argument specs
	$(RUN)/python tests/make_role_readmes.py

rule-pages: venv ## Make the documentation's pages on the checker's rules anew
	$(RUN)/python tests/make_rule_pages.py

guide-runs: venv ## Run the checker as the guide on dumps shows it, and write its output there
	$(RUN)/python tests/make_guide_runs.py

clean: venv ## Remove the lab's cluster, its processes and state; records, .venv and programs stay
	$(RUN)/ansible-playbook playbooks/teardown.yml $(ARGS)

distclean: venv ## Remove the records, the built programs, .venv and what the tests keep as well
	$(RUN)/ansible-playbook playbooks/teardown.yml -e teardown_everything=true $(ARGS)
	rm -rf .venv .venv-oldest .cache

venv:
	@tools/venv requirements.txt

venv-test:
	@tools/venv requirements.txt requirements-dev.txt
