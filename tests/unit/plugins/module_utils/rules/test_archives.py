# Copyright (c) gpuwl.sandbox contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import gzip
import io
import tarfile

import pytest
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules import archives
from ansible_collections.gpuwl.sandbox.plugins.module_utils._rules.objects import Unreadable


def stream(data, piece=1000):
    """Give bytes in pieces."""
    reading = io.BytesIO(data)
    return archives.Stream(lambda: reading.read(piece))


def drained(source):
    return b"".join(iter(lambda: source.read(1 << 16), b""))


def unzip(data, piece=1000):
    return drained(archives.unzipped(stream(data, piece)))


def tarred(entries, form=tarfile.PAX_FORMAT):
    """Make a tar file of (name, content) or (name, type)."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=form) as tar:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes) and len(content) != 1:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = content, "x"
                tar.addfile(member)
    return written.getvalue()


def listed(data, piece=1000):
    return [(name, reason, drained(inside)) for name, reason, inside in archives.members(stream(data, piece))]


@pytest.mark.parametrize("piece", [1, 7, 1000, 100000])
def test_a_stream_gives_all_bytes_once(piece):
    data = bytes(range(256)) * 40
    source = stream(data, piece)
    assert source.peek(10) == data[:10]
    assert source.exactly(20) == data[:20]
    taken = source.read(5)
    source.put_back(taken)
    assert source.exactly(5) == data[20:25]
    assert source.skip(1000)
    assert drained(source) == data[1025:]
    assert source.peek(5) == b"" and not source.skip(1)


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_unzips(piece):
    one, other = b"hello" * 1000, bytes(range(256)) * 50
    assert unzip(gzip.compress(one), piece) == one
    assert unzip(gzip.compress(one) + gzip.compress(b"") + gzip.compress(other), piece) == one + other
    assert unzip(gzip.compress(one) + b"\0" * 700, piece) == one
    assert unzip(gzip.compress(one) + b"\0" * 700 + gzip.compress(other), piece) == one + other


def test_every_damage_to_gzip_is_noticed():
    packed = gzip.compress(b"hello world" * 5)
    for cut in range(len(packed)):
        with pytest.raises(Unreadable, match="truncated"):
            unzip(packed[:cut])
    for place in range(10, len(packed)):
        with pytest.raises(Unreadable, match="gzip data"):
            unzip(packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :])
    with pytest.raises(Unreadable, match="something follows"):
        unzip(packed + b"x")


def test_a_bomb_is_unpacked_in_small_pieces():
    packed = gzip.compress(b"\0" * (64 << 20))
    source = archives.unzipped(stream(packed))
    assert len(source.read(1 << 30)) <= 1 << 18


def test_many_small_parts_are_limited():
    with pytest.raises(Unreadable, match="100,000 parts"):
        unzip(gzip.compress(b"") * 100001, 1 << 20)


LONG = "d/" * 60 + "x" * 120
ENTRIES = [("a.json", b"hello"), ("empty", b""), (LONG, b"long"), ("b\u00e9", b"x" * 512), ("c", b"y" * 5000)]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("piece", [100, 512, 100000])
def test_reads_tar(form, piece):
    entries = [one for one in ENTRIES if form != tarfile.USTAR_FORMAT or one[0] != LONG]
    entries += [("p/" * 50 + "q" * 60, b"prefix")]
    assert listed(tarred(entries, form), piece) == [(name, "", content) for name, content in entries]


def test_members_need_not_be_read():
    assert [name for name, _reason, _inside in archives.members(stream(tarred(ENTRIES)))] == [one[0] for one in ENTRIES]


@pytest.mark.parametrize(
    "name, content, reason",
    [
        ("l", tarfile.SYMTYPE, "a link"),
        ("l", tarfile.LNKTYPE, "a link"),
        ("f", tarfile.FIFOTYPE, "a FIFO"),
        ("d", tarfile.CHRTYPE, "a device"),
        ("d", tarfile.BLKTYPE, "a device"),
        ("s", tarfile.GNUTYPE_SPARSE, "sparse"),
        ("?", b"Z", "no regular file"),
        ("/etc/x.json", b"hello", "an absolute name"),
        ("C:/x.json", b"hello", "an absolute name"),
        ("a/../../x", b"hello", 'a name with ".."'),
        ("..", b"hello", 'a name with ".."'),
        ("a\\..\\x", b"hello", 'a name with ".."'),
    ],
)
def test_what_is_not_read_from_tar(name, content, reason):
    found = listed(tarred([("a", b"hi"), (name, content), ("z", b"ho")]))
    assert [one[:2] for one in found] == [("a", ""), (name, reason), ("z", "")]


def test_a_name_is_limited():
    found = listed(tarred([("a/" * 10000, b"hi"), ("z", b"ho")]))
    assert [one[1] for one in found] == ["a name longer than that of any file", ""]
    assert len(found[0][0]) == archives.MAX_NAME


def test_folders_are_no_members():
    assert listed(tarred([("d", tarfile.DIRTYPE), ("d/a", b"hi")])) == [("d/a", "", b"hi")]


def test_every_cut_of_tar_is_noticed():
    data = tarred(ENTRIES)
    end = data.rindex(b"y") + 1
    for cut in [*range(0, end, 61), end - 1, end, end + 511 - (end - 1) % 512 - 1]:
        with pytest.raises(Unreadable, match="archive is truncated"):
            listed(data[:cut])


def broken(place, value):
    data = bytearray(tarred([("a", b"hello")], tarfile.USTAR_FORMAT))
    data[place : place + len(value)] = value
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + 256 + sum(data[156:512]))
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        tarred([("a", b"hello")]).replace(b"a", b"b", 1),
        broken(124, b"zzzzzzzzzzz\0"),
        broken(124, b"-0000000001\0"),
        broken(124, b"\xff" * 12),
        broken(124, b"\x80" + b"\x7f" * 11),
        broken(124, b"77777777777\0"),
        broken(156, b"L").replace(b"00000000005", b"77777777777"),
    ],
)
def test_damaged_headers(data):
    with pytest.raises(Unreadable, match="archive is (corrupt|truncated)"):
        listed(data)


def test_long_headers_take_no_memory():
    data = bytearray(broken(156, b"x"))
    data[124:136] = b"37777777777\0"
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + 256 + sum(data[156:512]))
    with pytest.raises(Unreadable, match="corrupt"):
        listed(bytes(data))


def test_pax_records_that_lie():
    for record in (b"9999999 path=x\n", b"0 path=x\n", b"x path=y\n", b"-5 path=x\n", b"14 size=99999x\n", b""):
        member = tarfile.TarInfo("h")
        member.type, member.size = tarfile.XHDTYPE, len(record)
        written = io.BytesIO()
        written.write(
            member.tobuf(tarfile.USTAR_FORMAT) + record + b"\0" * (-len(record) % 512) + tarred([("a", b"hello")])
        )
        try:
            assert listed(written.getvalue()) == [("a", "", b"hello")]
        except Unreadable as error:
            assert "corrupt" in str(error)


def test_many_members_are_limited():
    one = tarred([("a", b"")], tarfile.USTAR_FORMAT)[:512]
    with pytest.raises(Unreadable, match="more than 100,000 members"):
        for _member in archives.members(stream(one * 100001, 1 << 20)):
            pass


@pytest.mark.parametrize(
    "head, form",
    [
        (gzip.compress(b"x"), "gzip"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"PK\3\4", "zip"),
        (tarred([("a", b"hello")])[:512], "tar"),
        (b"{}", ""),
        (b"", ""),
        (b"B", ""),
    ],
)
def test_forms_are_told_by_content(head, form):
    assert archives.packed_form(head) == form
