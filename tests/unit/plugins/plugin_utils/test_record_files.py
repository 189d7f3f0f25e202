# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record files: whole or not at all, and only where they differ."""

import errno
import json
import os

import pytest
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils import record_files
from ansible_collections.gpuwl.sandbox.plugins.plugin_utils.record_files import (
    RecordError,
    below,
    compare,
    make_folders,
    remove,
    remove_empty,
    write,
)


def record(path="out/a.txt", content="x", mode="0644"):
    return {"path": path, "content": content, "mode": mode}


def put(root, **more):
    """Bring one record about; returns whether anything was to be done."""
    change = compare(root, record(**more))
    if change:
        write([change])
    return change is not None


@pytest.mark.parametrize(
    "content, text",
    [
        ("x", "x\n"),
        ("x\n\n", "x\n"),
        (["a", "b"], "a\nb\n"),
        ([], ""),
        ("", ""),
        ("\n", ""),
        (5, "5\n"),
        (None, "None\n"),
        (["ä"], "ä\n"),
        ([1, "b"], "1\nb\n"),
    ],
)
def test_text_ends_in_one_newline(tmp_path, content, text):
    assert put(tmp_path, content=content)
    assert (tmp_path / "out/a.txt").read_bytes() == text.encode()
    assert not put(tmp_path, content=content)


def test_data_becomes_json_of_the_same_order(tmp_path):
    data = {"b": ["ä", None, 1.5], "a": True}
    put(tmp_path, path="run.json", content=data)
    text = (tmp_path / "run.json").read_text("utf-8")
    assert json.loads(text) == data and text.startswith('{\n  "b"') and "ä" in text and text.endswith("}\n")
    assert not put(tmp_path, path="run.json", content=data)
    put(tmp_path, path="run.json", content=[])
    assert (tmp_path / "run.json").read_text() == "[]\n"


def test_half_a_surrogate_pair_stays_valid_json(tmp_path):
    assert put(tmp_path, path="run.json", content={"a": "\ud800"})
    assert json.loads((tmp_path / "run.json").read_bytes()) == {"a": "\ud800"}
    assert not put(tmp_path, path="run.json", content={"a": "\ud800"})


@pytest.mark.parametrize("before", [b"x\r\n", b"x", b"x\n\n", b"\xff", b"y\n", b""])
def test_a_file_that_differs_by_a_byte_is_replaced(tmp_path, before):
    (tmp_path / "a.txt").write_bytes(before)
    assert put(tmp_path, path="a.txt")
    assert (tmp_path / "a.txt").read_bytes() == b"x\n"


def test_a_file_that_is_right_is_not_touched(tmp_path):
    def written():
        """What writing alone changes: to read a file, as put does, may change its time of access."""
        status = (tmp_path / "out/a.txt").stat()
        return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    put(tmp_path)
    before = written()
    assert not put(tmp_path)
    assert written() == before


@pytest.mark.parametrize("mode, bits", [("0755", 0o755), ("600", 0o600)])
def test_modes(tmp_path, mode, bits):
    put(tmp_path, mode=mode)
    assert (tmp_path / "out/a.txt").stat().st_mode & 0o7777 == bits
    assert not put(tmp_path, mode=mode)
    (tmp_path / "out/a.txt").chmod(0o640)
    assert put(tmp_path, mode=mode)
    assert (tmp_path / "out/a.txt").stat().st_mode & 0o7777 == bits


@pytest.mark.parametrize("mode", ["", "rw", "0999", "-644", "17777", "420x", "64"])
def test_wrong_modes(tmp_path, mode):
    with pytest.raises(RecordError, match="is no octal number such as '0644'"):
        put(tmp_path, mode=mode)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "out/../../x", ".."])
def test_nothing_lies_outside_the_root(tmp_path, path):
    for attempt in (lambda: put(tmp_path / "root", path=path), lambda: below(tmp_path / "root", path)):
        with pytest.raises(RecordError, match="would lie outside .*: give a path below it"):
            attempt()


def test_a_neighbour_with_a_longer_name_is_outside(tmp_path):
    with pytest.raises(RecordError):
        below(tmp_path / "root", "../root2/x")


def test_a_folder_in_the_way(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(RecordError, match="a.txt cannot be written, because it is a folder: remove or rename it"):
        put(tmp_path, path="a.txt")


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(RecordError, match="a file is where a folder should be: move it away, or choose another folder"):
        put(tmp_path)
    with pytest.raises(RecordError, match="a file is where a folder should be"):
        make_folders([tmp_path / "out"])


@pytest.mark.parametrize(
    "number, advice",
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EACCES, "make the folder writable"),
        (errno.EROFS, "make the folder"),
    ],
)
def test_a_failure_leaves_the_old_file_and_names_what_was_written(tmp_path, monkeypatch, number, advice):
    put(tmp_path, path="b.txt", content="old")
    changes = [compare(tmp_path, record(path)) for path in ("a.txt", "b.txt", "c.txt")]
    real = os.replace

    def replace(source, target):
        if target.name == "b.txt":
            raise OSError(number, os.strerror(number))
        real(source, target)

    monkeypatch.setattr(record_files.os, "replace", replace)
    with pytest.raises(RecordError, match=f"b.txt cannot be written .*{advice}.*; written before it: .*a.txt"):
        write(changes)
    assert (tmp_path / "b.txt").read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_what_a_killed_run_left_half_written_is_cleared(tmp_path, monkeypatch):
    change = compare(tmp_path, record("a.txt"))

    def die(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(record_files.os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            write([change])
    assert len(list(tmp_path.iterdir())) == 1
    assert put(tmp_path, path="a.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path):
    (tmp_path / "target").write_text("theirs")
    (tmp_path / "a.txt").symlink_to("target")
    put(tmp_path, path="a.txt")
    assert (tmp_path / "target").read_text() == "theirs"
    assert not (tmp_path / "a.txt").is_symlink()


def test_diff_shows_both_sides(tmp_path):
    new = compare(tmp_path, record()).diff()
    assert (new["before"], new["after"], new["before_header"]) == ("", "x\n", "absent")
    put(tmp_path)
    changed = compare(tmp_path, record(content="y")).diff()
    assert (changed["before"], changed["after"], changed["before_header"]) == (
        "x\n",
        "y\n",
        str(tmp_path / "out/a.txt"),
    )


def test_removing(tmp_path):
    put(tmp_path)
    remove_empty([tmp_path / "out"])
    assert (tmp_path / "out").is_dir()
    remove([tmp_path / "out/a.txt", tmp_path / "gone"])
    remove_empty([tmp_path / "none", tmp_path / "out", tmp_path])
    assert not tmp_path.exists()
    tmp_path.mkdir()
    with pytest.raises(RecordError, match="cannot be"):
        remove([tmp_path])
