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

.PHONY: help lab test unit programs script clean distclean venv venv-test

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab: venv ## Set everything up and run the lab (your own: ARGS="-e @my-pools.yml")
	$(RUN)/ansible-playbook playbooks/lab.yml $(ARGS)

# -rfEs: what was left out is said at the end, besides what failed.
test: programs venv-test ## Set everything up and run all tests
	$(RUN)/python tests/make_script.py --check
	$(RUN)/python -m pytest -rfEs tests/unit tests/integration

unit: venv-test ## Run the unit tests alone, in seconds
	$(RUN)/python -m pytest tests/unit

programs: venv ## Have the programs of the control plane and start nothing
	$(RUN)/ansible-playbook playbooks/programs.yml $(ARGS)

script: venv ## Make roles/check/files/check-config.sh anew from the rules
	$(RUN)/python tests/make_script.py

clean: venv ## Remove the lab's cluster, its processes and state; records, .venv and programs stay
	$(RUN)/ansible-playbook playbooks/teardown.yml $(ARGS)

distclean: venv ## Remove the records, the built programs and .venv as well
	$(RUN)/ansible-playbook playbooks/teardown.yml -e teardown_everything=true $(ARGS)
	rm -rf .venv

venv:
	@tools/venv requirements.txt

venv-test:
	@tools/venv requirements.txt requirements-dev.txt
