"""Bytes in and bytes out: streams, arguments, variables, and the reply descriptor."""

from __future__ import annotations

import hashlib
import os

import pytest

from turngym.sandboxes.errors import SandboxError


async def run(sandbox, code, *arguments, **options):
    return await sandbox.exec(["python3", "-c", code, *arguments], **options)


async def test_streams_are_kept_apart_and_exact(sandbox):
    result = await run(sandbox, r"import os; os.write(1, b'\0\xffout'); os.write(2, b'err\r\n')")
    assert (result.status, result.exit_code) == ("exited", 0)
    assert (result.stdout, result.stderr) == (b"\0\xffout", b"err\r\n")
    assert result.stdout_text == "\0�out"
    assert not result.stdout_truncated
    assert not result.stderr_truncated


async def test_a_mebibyte_comes_back_whole(sandbox):
    result = await run(sandbox, "import os, sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)")
    assert result.stdout == bytes(range(256)) * 4096
    assert result.status == "exited"


async def test_stdin_is_all_there_and_ends(sandbox):
    data = os.urandom(3 << 20)
    code = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    result = await run(sandbox, code, stdin=data)
    assert result.stdout_text.strip() == hashlib.sha256(data).hexdigest()


async def test_input_and_output_at_once_do_not_wait_for_each_other(sandbox):
    echo = "import sys\nwhile block := sys.stdin.buffer.read1(7000): sys.stdout.buffer.write(block)"
    data = os.urandom(900_000)
    result = await run(sandbox, echo, stdin=data)
    assert result.stdout == data


async def test_stdin_that_nobody_reads_is_dropped(sandbox):
    result = await run(sandbox, "print('done')", stdin=b"A" * (8 << 20))
    assert (result.status, result.stdout) == ("exited", b"done\n")


async def test_stdin_closed_half_way_is_no_error(sandbox):
    result = await run(sandbox, "import os; os.read(0, 10); os.close(0); print('on')", stdin=b"A" * (4 << 20))
    assert (result.status, result.stdout) == ("exited", b"on\n")


@pytest.mark.parametrize("stream", [1, 2])
async def test_too_much_output_stops_the_program(create, stream):
    sandbox = await create(stdout_bytes=5000, stderr_bytes=5000)
    code = f"import os, time\nos.write({stream}, b'a' * 20000)\ntime.sleep(20)"
    result = await run(sandbox, code)
    assert result.status == "output_limit"
    streams = {1: (result.stdout, result.stdout_truncated), 2: (result.stderr, result.stderr_truncated)}
    assert streams[stream] == (b"a" * 5000, True)
    assert result.wall_s < 5


async def test_output_of_exactly_the_limit_is_no_excess(create):
    sandbox = await create(stdout_bytes=5000)
    result = await run(sandbox, "import os; os.write(1, b'a' * 5000)")
    assert (result.status, result.stdout_truncated, len(result.stdout)) == ("exited", False, 5000)
    result = await run(sandbox, "import os; os.write(1, b'a' * 5001)")
    assert (result.stdout_truncated, len(result.stdout)) == (True, 5000)


async def test_output_of_a_closed_duplicated_or_nonblocking_stream(sandbox):
    code = (
        "import os, sys\n"
        "os.set_blocking(1, False)\n"
        "copy = os.dup(1)\n"
        "os.write(1, b'one ')\n"
        "os.close(1)\n"
        "os.write(copy, b'two')\n"
        "os.close(copy)\n"
        "os.write(2, b'three')\n"
        "sys.stdout = None\n"
        "os._exit(7)\n"
    )
    result = await run(sandbox, code)
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"one two", b"three")


async def test_arguments_arrive_byte_for_byte(sandbox):
    given = ["", " ", "a b", "'\"$`\\", "-x", "ünï", os.fsdecode(b"\xff\xfe\x80"), "\n\t", "*", "x" * 100_000]
    code = "import os, sys; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    result = await run(sandbox, code, *given)
    assert result.stdout == b"\0".join(os.fsencode(text) for text in given)


async def test_arguments_of_a_program_that_is_no_python(sandbox):
    given = ["a b", "$HOME", os.fsdecode(b"\xff"), "%s"]
    result = await sandbox.exec(["printf", "[%s]", *given])
    assert result.stdout == b"".join(b"[" + os.fsencode(text) + b"]" for text in given)


async def test_only_the_listed_variables_are_set(sandbox, backend):
    code = (
        "import os; print(sorted(os.environ)); print(os.environ['EXTRA'], os.environ['HOME'] == os.getcwd())"
    )
    result = await run(sandbox, code, env={"EXTRA": "ü=1"})
    names, values = result.stdout_text.splitlines()
    assert set(eval(names)) <= {
        "EXTRA", "HOME", "LANG", "PATH", "PYTHONDONTWRITEBYTECODE", "TMPDIR", "PYTHONPATH", "LC_CTYPE", "PWD",
        "USER", "LOGNAME",
    }  # fmt: skip
    assert values == "ü=1 True"


async def test_a_large_environment_is_passed_and_a_huge_one_refused_in_words(sandbox):
    env = {f"V{number}": "x" * 50_000 for number in range(30)}
    result = await run(sandbox, "import os; print(len(os.environ['V29']))", env=env)
    assert result.stdout == b"50000\n"
    env = {f"V{number}": "x" * 100_000 for number in range(100)}
    with pytest.raises(ValueError, match="write it to a file"):
        await sandbox.exec(["/bin/true"], env=env)


async def test_the_working_folder(sandbox):
    await sandbox.write_file("deep/er/here.txt", b"x")
    result = await run(sandbox, "import os; print(os.listdir())", cwd="deep/er")
    assert result.stdout == b"['here.txt']\n"
    result = await run(sandbox, "print('never')", cwd="no/such")
    assert (result.status, result.stdout) == ("exited", b"")
    assert result.exit_code in (126, 127)


@pytest.mark.parametrize(
    "argv",
    [[], ["python3", "-c", "print(1)\0"], ["a\0b"], ["x" * 200_000], ["true"] * 5000],
    ids=["none", "zero byte", "zero byte in name", "long", "many"],
)
async def test_impossible_arguments_are_refused(sandbox, argv):
    with pytest.raises(ValueError):
        await sandbox.exec(argv)


async def test_a_shell_line_is_refused(sandbox):
    with pytest.raises(TypeError):
        await sandbox.exec("echo hello; rm -rf /")


async def test_the_reply_descriptor(sandbox):
    code = "import os; os.write(3, b'\\0 answer'); print('apart')"
    result = await run(sandbox, code, reply_bytes=100)
    assert (result.reply, result.stdout) == (b"\0 answer", b"apart\n")
    result = await run(sandbox, "print('no answer')", reply_bytes=100)
    assert result.reply == b""
    assert (await run(sandbox, "print('none asked')")).reply is None


async def test_a_reply_that_is_too_long_is_none(sandbox):
    code = "import os\ntry: os.write(3, b'x' * 101)\nexcept OSError: pass"
    result = await run(sandbox, code, reply_bytes=100)
    assert result.reply is None


async def test_no_reply_descriptor_unless_asked(sandbox):
    code = "import os\ntry: os.write(3, b'x'); print('open')\nexcept OSError: print('closed')"
    assert (await run(sandbox, code)).stdout == b"closed\n"


async def test_calls_that_overlap_take_turns(sandbox):
    import asyncio

    results = await asyncio.gather(*(run(sandbox, f"print({number})") for number in range(5)))
    assert [result.stdout for result in results] == [b"%d\n" % number for number in range(5)]


async def test_limits_of_another_sandbox_are_refused(sandbox):
    with pytest.raises(ValueError, match="fixed"):
        await run(sandbox, "pass", limits=sandbox.limits.model_copy(update={"memory_mib": 64}))


async def test_a_closed_sandbox_says_so(create):
    sandbox = await create()
    await sandbox.close()
    await sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        await run(sandbox, "pass")
