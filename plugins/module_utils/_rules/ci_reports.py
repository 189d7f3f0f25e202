# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of a check for programs that run checks: JUnit XML and GitHub's annotations.

Private to the collection gpuwl.sandbox. Sources: the JUnit schema of Jenkins' xunit plugin (junit-10.xsd), and
GitHub's "Workflow commands" (::error file=,title=::message, escaped as actions/toolkit packages/core/src/command.ts does).
"""

from typing import Dict, Iterator, List, Tuple
from xml.sax.saxutils import escape, quoteattr

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.finding import NODE, SEVERITIES, Draft
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.node_ranges import ranges, shell_names
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line

_GITHUB_WORDS = {"error": "error", "warning": "warning", "info": "notice"}


def junit_xml(outcome: Outcome, suite: str, fail_on: str = "error") -> Iterator[str]:
    """Give the lines of a JUnit document: a test case per node judged, which fails with its findings.

    suite: the name of the test suite, such as the dump's path; fail_on: the mildest severity that fails a test case.
    What is not about a judged node, or could not be read, has a test case of its own.
    """
    found: Dict[Tuple[str, str], List[Draft]] = {(name, source): [] for name, source in outcome.judged()}
    for group in outcome.counted():
        for name, source in group.subjects:
            found.setdefault((name if group.kind == "Node" else f"{group.kind} {name}", source), []).append(group.draft)
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    failures = sum(any(draft.severity in failing for draft in drafts) for drafts in found.values())
    counts = 'tests="%d" failures="%d" errors="%d"' % (len(found) + len(outcome.errors), failures, len(outcome.errors))
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites><testsuite name={_attribute(suite)} {counts}>"
    for error in outcome.errors:
        yield f'<testcase classname={_attribute(suite)} name="can be read"><error message={_attribute(error)}/></testcase>'
    for (name, source), drafts in found.items():
        yield from _test_case(name, source or suite, drafts, failing)
    yield "</testsuite></testsuites>"


def _test_case(name: str, source: str, drafts: List[Draft], failing: Tuple[str, ...]) -> Iterator[str]:
    head = f"<testcase classname={_attribute(source)} name={_attribute(name)}"
    if not drafts:
        yield head + "/>"
        return
    yield head + ">"
    told = []
    for draft in drafts:
        remedy = draft.remedy.replace(NODE, shell_names([name]))
        if draft.severity in failing:
            message, kind = _attribute(draft.message), _attribute(draft.rule)
            yield f"<failure type={kind} message={message}>{escape(one_line(remedy))}</failure>"
        else:
            told.append(f"{draft.severity} {draft.rule}: {draft.message}")
    if told:
        yield "<system-out>" + "\n".join(escape(one_line(line)) for line in told) + "</system-out>"
    yield "</testcase>"


def _attribute(text: str) -> str:
    # One line, so that XML has no character that it may not hold.
    return quoteattr(one_line(text).encode("utf-8", "backslashreplace").decode("utf-8"))


def github_lines(outcome: Outcome) -> Iterator[str]:
    """Give a workflow command per fault: it shows as an annotation where a GitHub workflow prints it."""
    for error in outcome.errors:
        yield "::error title=unreadable::" + _github(error)
    for groups in outcome.faults():
        yield _annotation(groups[0].draft, [subject for group in groups for subject in group.subjects])


def _annotation(draft: Draft, subjects: List[Tuple[str, str]]) -> str:
    names = [name for name, _source in subjects]
    text = f"{ranges(names, 8)}: {draft.message}. {draft.remedy.replace(NODE, shell_names(names))}"
    source = _github(subjects[0][1]).replace(":", "%3A").replace(",", "%2C")
    place = f"file={source}," if source else ""
    return f"::{_GITHUB_WORDS[draft.severity]} {place}title={draft.rule}::{_github(text)}"


def _github(text: str) -> str:
    return one_line(text).replace("%", "%25")
