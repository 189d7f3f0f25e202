# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the offline checker says about dumps, as plain data with one text per format.

Private to the collection gpuwl.sandbox.
"""

import os
from typing import Any, Dict, List, Sequence, Tuple

from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.check_config import text_of
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.checking import check_paths
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.ci_reports import github_lines, junit_xml
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.outcome import Outcome
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.report import one_line
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.settings import Settings
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.sources import files_of

# What a report can be written as, and how such a file's name ends.
FORMATS = {"text": ".txt", "json": ".json", "junit": ".xml", "github": ".github.txt"}


def reports_on(
    paths: Any, settings: Settings, formats: Sequence[str] = ("text",), fail_on: str = "error"
) -> List[Dict[str, Any]]:
    """Judge dumps: by the profile lab each file for itself, by operator each path given as one cluster.

    paths: a path or a list of them. formats: keys of FORMATS.
    Returns a report per file or path: path; profile; fail_on; exit_code 0, 1 or 2; checked, the number of nodes judged; text, for
    standard output; error, why it cannot be read, one line, "" if it can; findings; outputs, {format: text}.
    """
    reports = []
    for path, error in _dumps(paths, settings.profile == "operator"):
        if path == "-":
            error = "-: a filter has no standard input, expected the path of a file or folder"
        if error:
            outcome = Outcome(settings.profile, [], [error], 0, {}, [], [])
        else:
            outcome = check_paths([path], settings)
        reports.append(_report(path, outcome, formats, fail_on))
    return reports


def _dumps(paths: Any, whole: bool) -> List[Tuple[str, str]]:
    """Return (path, what is wrong with it or ""); whole: a folder is one dump, and does not stand for its files."""
    if not whole:
        return files_of(paths)
    dumps: List[Tuple[str, str]] = []
    for path in paths if isinstance(paths, list) else [paths]:
        dumps += [(path, "")] if isinstance(path, str) and os.path.isdir(path) else files_of(path)
    return dumps


def _report(path: str, outcome: Outcome, formats: Sequence[str], fail_on: str) -> Dict[str, Any]:
    return {
        "path": path,
        "profile": outcome.profile,
        "fail_on": fail_on,
        "exit_code": outcome.exit_code(fail_on),
        "checked": outcome.checked,
        "text": "" if outcome.errors else "\n".join(text_of(outcome, "text")),
        "error": "; ".join(one_line(error) for error in outcome.errors),
        "findings": list(outcome.findings()),
        "outputs": {form: "\n".join(_lines(outcome, form, path, fail_on)) for form in formats},
    }


def _lines(outcome: Outcome, form: str, path: str, fail_on: str) -> Any:
    if form == "junit":
        return junit_xml(outcome, path, fail_on)
    if form == "github":
        return github_lines(outcome)
    if form == "text" and outcome.errors:
        return [one_line(error) for error in outcome.errors] + list(text_of(outcome, form))
    return text_of(outcome, form)
