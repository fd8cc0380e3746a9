"""The file interface: what is written comes back, and nothing outside the home is ever read or written."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tarfile

import pytest
from conformance.helpers import Canaries, alone, assert_withstood, within

from turngym.sandboxes.errors import FileError, FileTooLarge


async def run(sandbox, code, **options):
    return await sandbox.exec(["python3", "-c", code], **options)


async def test_bytes_come_back(sandbox):
    data = os.urandom(1 << 20)
    await sandbox.write_file("a/b/c.bin", data)
    assert await sandbox.read_file("a/b/c.bin") == data
    assert await sandbox.read_file("./a//b/./c.bin") == data
    await sandbox.write_file("a/b/c.bin", b"")
    assert await sandbox.read_file("a/b/c.bin") == b""


async def test_programs_and_the_interface_see_the_same_files(sandbox):
    await sandbox.write_file("in.txt", b"in")
    result = await run(
        sandbox, "import os; open('out.txt', 'w').write(open('in.txt').read() + 'out'); os.chmod('in.txt', 0)"
    )
    assert result.ok, result.stderr_text
    assert await sandbox.read_file("out.txt") == b"inout"
    await sandbox.write_file("in.txt", b"again")
    assert (await run(sandbox, "print(open('in.txt').read())")).stdout == b"again\n"


async def test_files_belong_to_the_program(sandbox):
    await sandbox.write_file("d/file", b"x", executable=False)
    code = "import os; os.remove('d/file'); os.rmdir('d'); print('removed')"
    assert (await run(sandbox, code)).stdout == b"removed\n"


async def test_the_absolute_home_is_the_home(sandbox):
    home = (await run(sandbox, "import os; print(os.getcwd())")).stdout_text.strip()
    await sandbox.write_file(f"{home}/x.txt", b"x")
    assert await sandbox.read_file("x.txt") == b"x"


@pytest.mark.parametrize(
    "name", ["ümläut", "with space", "new\nline", os.fsdecode(b"\xff\xfe"), "-rf", "*", "x" * 200]
)
async def test_awkward_names(sandbox, name):
    await sandbox.write_file(f"d/{name}", b"content")
    assert await sandbox.read_file(f"d/{name}") == b"content"
    result = await run(sandbox, "import os; os.write(1, os.listdir(b'd')[0])")
    assert result.stdout == os.fsencode(name)


@pytest.mark.parametrize(
    "path",
    ["", ".", "/", "..", "../x", "a/../../x", "/etc/passwd", "/proc/self/environ", "/dev/zero", "a\0b", "x" * 300,
     "x/" * 100 + "x", "y" * 5000],
)  # fmt: skip
async def test_paths_that_are_refused(sandbox, path):
    with within(3):
        with pytest.raises(FileError):
            await sandbox.read_file(path)
        with pytest.raises(FileError):
            await sandbox.write_file(path, b"zz_attack_marker")


async def test_what_is_not_there_and_what_is_no_file(sandbox):
    with pytest.raises(FileError):
        await sandbox.read_file("nothing")
    await sandbox.write_file("folder/file", b"")
    for path in ("folder", "folder/"):
        with pytest.raises(FileError):
            await sandbox.read_file(path)
        with pytest.raises(FileError):
            await sandbox.write_file(path, b"")
    with pytest.raises(FileError):
        await sandbox.read_file("folder/file/below")
    with pytest.raises(FileError):
        await sandbox.write_file("folder/file/below", b"")


async def test_a_file_that_is_larger_than_was_asked_for(sandbox):
    await sandbox.write_file("large", b"x" * 1001)
    assert len(await sandbox.read_file("large", max_bytes=1001)) == 1001
    with pytest.raises(FileTooLarge):
        await sandbox.read_file("large", max_bytes=1000)


async def test_special_files_neither_hang_nor_answer(sandbox):
    code = (
        "import os, socket\nos.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('sock'); os.mkdir('dir')\n"
        "os.symlink('loop', 'loop'); os.symlink('dir', 'link'); os.symlink('/dev/zero', 'zero')\n"
        "open('f', 'w').close()\n"
        "os.link('f', 'second'); print('ATTEMPT')"
    )
    assert_withstood(await run(sandbox, code))
    for path in ("fifo", "sock", "dir", "loop", "link", "link/x", "zero", "second"):
        with within(2), pytest.raises(FileError):
            await sandbox.read_file(path)
    for path in ("fifo", "sock", "loop", "zero", "second"):
        with within(2):
            await sandbox.write_file(path, path.encode())  # takes the place of what was there
        assert await sandbox.read_file(path) == path.encode()
    with pytest.raises(FileError):
        await sandbox.write_file("link/x", b"")
    assert (await run(sandbox, "print(open('f').read() == '')")).stdout == b"True\n"


SWAP = """
import os, shutil, time
def repair():  # the host writes here too
    for name in ("swap", "mine", "evil"):
        try: os.unlink(name) if os.path.islink(name) else shutil.rmtree(name)
        except OSError: pass
    os.mkdir("swap"); os.symlink("/root", "evil")
repair()
print("ATTEMPT", flush=True)
end = time.monotonic() + {seconds}
turns = 0
while time.monotonic() < end:
    try:
        os.rename("swap", "mine"); os.rename("evil", "swap"); time.sleep(0.0002)
        os.rename("swap", "evil"); os.rename("mine", "swap")
        os.symlink("/root/canary.txt", "swap/link")
        os.rename("swap/link", "swap/canary.txt")
        os.unlink("swap/canary.txt")
        open("swap/canary.txt", "w").write("harmless")
        turns += 1
        if turns % 20 == 0: open("turns", "w").write(str(turns))
    except OSError: repair()
"""


async def test_a_path_that_is_swapped_while_the_host_uses_it(isolating, with_sessions, create):
    """A background process of a session swaps folders and links as fast as it can."""
    with alone(), Canaries() as planted:
        sandbox = await create(wall_s=10, cpu_s=10)
        await sandbox.write_file("swap.py", SWAP.format(seconds=2).encode())
        session = await sandbox.session()
        started = await session.run(
            "import subprocess\np = subprocess.Popen(['python3', 'swap.py'], stdout=subprocess.PIPE)\n"
            "p.stdout.readline()"
        )
        assert "ATTEMPT" in (started.value or ""), started
        tries = refused = 0
        loop = asyncio.get_running_loop()
        end = loop.time() + 1.7
        while loop.time() < end:
            tries += 1
            try:
                content = await sandbox.read_file("swap/canary.txt")
            except FileError:
                refused += 1
            else:
                planted.assert_unread(content)
            with contextlib.suppress(FileError):
                await sandbox.write_file("swap/zz_attack_marker", b"zz_attack_marker")
            with contextlib.suppress(FileError):
                await sandbox.write_file("swap/canary.txt", b"overwritten")
            if tries % 10 == 0:
                with contextlib.suppress(FileError):
                    planted.assert_unread(await sandbox.pack())
            planted.assert_unwritten()
        assert tries > 20
        assert refused or int(await sandbox.read_file("turns")) > 20
        await session.close()
        planted.assert_unwritten()


async def test_writing_while_the_host_reads(isolating, with_sessions, create):
    """A file that grows, shrinks and is replaced gives some content or an error, never a hang."""
    sandbox = await create(wall_s=10, cpu_s=10)
    await sandbox.write_file(
        "grow.py",
        b"import os, time\nend = time.monotonic() + 2\nprint('ATTEMPT', flush=True)\n"
        b"while time.monotonic() < end:\n"
        b"    with open('file', 'wb') as f:\n        for _ in range(50): f.write(b'x' * 40000); f.flush()\n"
        b"    os.truncate('file', 10); os.unlink('file'); os.mkfifo('file')\n"
        b"    os.unlink('file'); open('file', 'w').close()\n",
    )
    session = await sandbox.session()
    await session.run(
        "import subprocess\np = subprocess.Popen(['python3', 'grow.py'], stdout=subprocess.PIPE); p.stdout.readline()"
    )
    read = 0
    for _ in range(60):
        with within(3), contextlib.suppress(FileError):
            content = await sandbox.read_file("file", max_bytes=1 << 20)
            assert not content.strip(b"x")
            read += 1
        with within(3), contextlib.suppress(FileError):
            await sandbox.pack(max_bytes=1 << 20)
        await asyncio.sleep(0.01)
    assert read
    await session.close()


async def test_pack_and_unpack(sandbox, create):
    await sandbox.write_file("p/a.txt", b"A")
    await sandbox.write_file("p/sub/run.sh", b"#!/bin/sh\necho ran\n", executable=True)
    await run(
        sandbox, "import os; os.mkdir('p/empty'); os.symlink('/etc/passwd', 'p/link'); os.mkfifo('p/fifo')"
    )
    packed = await sandbox.pack("p")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert sorted(archive.getnames()) == ["a.txt", "empty", "sub", "sub/run.sh"]
    other = await create()
    await other.unpack(packed, "q")
    assert await other.read_file("q/a.txt") == b"A"
    assert (await other.exec(["./q/sub/run.sh"])).stdout == b"ran\n"
    assert await other.pack("q") == packed


async def test_pack_is_bounded(sandbox):
    await sandbox.write_file("a", b"x" * 3000)
    await sandbox.write_file("b", b"x" * 3000)
    with pytest.raises(FileTooLarge):
        await sandbox.pack(max_bytes=5000)


def archive_of(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind, data in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


EVIL = {
    "up": archive_of(("../zz_attack_marker", tarfile.REGTYPE, b"x")),
    "absolute": archive_of(("/tmp/zz_attack_marker", tarfile.REGTYPE, b"x")),
    "link": archive_of(("link", tarfile.SYMTYPE, b"")),
    "hard link": archive_of(("link", tarfile.LNKTYPE, b"")),
    "device": archive_of(("device", tarfile.CHRTYPE, b"")),
    "fifo": archive_of(("fifo", tarfile.FIFOTYPE, b"")),
    "bomb": archive_of(("bomb", tarfile.REGTYPE, bytes(70 << 20))),
    "damaged": archive_of(("a", tarfile.REGTYPE, b"x" * 5000))[:-40],
    "none": b"this is no archive",
    "empty": b"",
}


@pytest.mark.parametrize("name", EVIL)
async def test_evil_archives(sandbox, name):
    with (
        Canaries()
        if os.geteuid() == 0 and name in ("up", "absolute")
        else contextlib.nullcontext() as planted
    ):
        with within(5), contextlib.suppress(FileError):
            await sandbox.unpack(EVIL[name])
            # A leading slash is cut off by tarfile's filter: then it lies within.
            assert name == "absolute"
        if planted is not None:
            planted.assert_unwritten()
    left = await run(
        sandbox, "import os; print([n for n in os.listdir() if os.path.islink(n) or not os.path.isfile(n)])"
    )
    assert left.stdout in (b"[]\n", b"['tmp']\n")


async def test_files_can_be_had_while_nothing_runs_and_after_a_timeout(sandbox):
    short = sandbox.limits.model_copy(update={"wall_s": 0.4})
    code = "import time\nopen('so_far', 'w').write('half')\nopen('x', 'a').flush()\ntime.sleep(60)"
    result = await run(sandbox, code.replace("write('half')", "write('half') and None"), limits=short)
    assert result.status == "timeout"
    assert await sandbox.read_file("so_far") == b"half"
