import gzip
import io
import tarfile

import pytest

from turngym.sandboxes.errors import FileError, FileTooLarge
from turngym.sandboxes.host.tars import MAX_ENTRIES, make_tar, read_tar
from turngym.sandboxes.inside.files import FOLDER_MODE

ENTRIES = [("a", FOLDER_MODE, b""), ("a/run.sh", 0o755, b"echo hi\n"), ("ü.txt", 0o644, b"")]


def archive(*members: tarfile.TarInfo, data: bytes = b"x") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            if member.isreg():
                member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def test_what_is_packed_is_unpacked_again_and_equal_folders_give_equal_bytes():
    assert read_tar(make_tar(ENTRIES), max_bytes=100) == ENTRIES
    assert make_tar(ENTRIES) == make_tar(list(ENTRIES))
    assert read_tar(gzip.compress(make_tar(ENTRIES)), max_bytes=100) == ENTRIES


@pytest.mark.parametrize(
    "bad",
    [
        member("../up"),
        member("a/../../up"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.SYMTYPE, "inside"),
        member("hard", tarfile.LNKTYPE, "a"),
        member("fifo", tarfile.FIFOTYPE),
        member("null", tarfile.CHRTYPE),
    ],
    ids=lambda info: f"{info.name}-{info.type!r}",
)
def test_what_leads_out_or_is_no_file_is_refused(bad):
    with pytest.raises(FileError):
        read_tar(archive(bad), max_bytes=1000)


def test_absolute_names_lose_their_root():
    assert read_tar(archive(member("/etc/x")), max_bytes=1000)[0][0] == "etc/x"


def test_sizes_are_bounded():
    with pytest.raises(FileTooLarge):
        read_tar(archive(member("big"), data=b"x" * 2000), max_bytes=1000)
    with pytest.raises(FileTooLarge, match="dense"):
        read_tar(gzip.compress(archive(member("bomb"), data=bytes(8 << 20))), max_bytes=1 << 30)
    with pytest.raises(FileTooLarge, match="entries"):
        read_tar(archive(*[member(f"f{n}") for n in range(MAX_ENTRIES + 1)]), max_bytes=1 << 30)


@pytest.mark.parametrize(
    "data",
    [b"", b"no tar at all" * 100, make_tar(ENTRIES)[:700], gzip.compress(b"x" * 1000, mtime=0)[:20]],
    ids=["empty", "no tar", "cut", "cut gzip"],
)
def test_damaged_archives_are_refused(data):
    try:
        assert read_tar(data, max_bytes=1000) in ([], ENTRIES[:1], ENTRIES[:2])
    except FileError:
        return
