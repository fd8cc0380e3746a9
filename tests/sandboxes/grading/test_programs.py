from __future__ import annotations

import pytest

from turngym.sandboxes.grading import Grader, ProgramCase, ProgramTask, Reason, Rules, TaskRefused
from turngym.sandboxes.grading.programs import is_same_output
from turngym.sandboxes.limits import Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(wall_s=1.5, cpu_s=1.0, memory_mib=128, processes=16, stdout_bytes=1 << 18)
DOUBLE = ProgramTask(
    tuple(ProgramCase(b"%d\n" % x, b"%d\n" % (2 * x)) for x in (1, 2, 21)),
    limits=LIMITS,
)
RIGHT = "print(2 * int(input()))\n"
NEAR = Rules(abs_tol=1e-6)


@pytest.mark.parametrize(
    ("source", "reasons"),
    [
        (RIGHT, {"passed"}),
        (
            "if __name__ == '__main__':\n    n = int(input())\n    print(' ', n * 2, '\\n\\n')",
            {"passed"},
        ),
        ("import sys\n" + RIGHT + "print('passed', file=sys.stderr)", {"passed"}),
        ("import subprocess\nsubprocess.Popen(['sleep', '60'])\n" + RIGHT, {"passed"}),
        ("print(3 * int(input()))", {"wrong_answer"}),
        ("print(*range(1000))", {"wrong_answer"}),
        ("print('OK 3 passed')", {"wrong_answer"}),
        ("", {"wrong_answer"}),
        ("\0", {"exit_code"}),
        (RIGHT + "raise ValueError", {"exit_code"}),
        (RIGHT + "import os, sys; sys.stdout.flush(); os._exit(1)", {"exit_code"}),
        (RIGHT + "import os, sys; sys.stdout.flush(); os.kill(os.getpid(), 9)", {"signalled"}),
        (RIGHT + "import time, sys; sys.stdout.flush(); time.sleep(60)", {"timeout"}),
        ("while True: print('2')", {"output_limit", "timeout"}),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", {"wrong_answer"}),
        ("#" * (1 << 20), {"load_error"}),
        ("import os; print(sorted(os.listdir('.')), end=''); " + RIGHT, {"wrong_answer"}),
    ],
)
async def test_programs(source: str, reasons: set[Reason], grader: Grader) -> None:
    verdict = await grader.grade(DOUBLE, source)
    assert set(verdict.reasons) <= reasons, verdict
    assert verdict.score == float(reasons == {"passed"})


async def test_expected_output_is_nowhere_in_the_sandbox(grader: Grader) -> None:
    source = (
        "import os, sys, gc\n"
        "texts = [str(gc.get_objects()), str(dict(os.environ)), str(sys.argv), sys.stdin.read()]\n"
        "for top in ('.', '/tmp', '/proc/self'):\n"
        "    for root, _, names in os.walk(top):\n"
        "        for name in names:\n"
        "            try: texts.append(open(os.path.join(root, name), errors='replace').read(100000))\n"
        "            except OSError: pass\n"
        "at = [t.find(''.join(('hid', 'den-'))) for t in texts]\n"
        "print([t[i:i + 15] for t, i in zip(texts, at) if i >= 0])"
    )
    task = ProgramTask((ProgramCase(b"7\n", b"hidden-0000001"),), limits=Limits(wall_s=10))
    (case,) = (await grader.grade(task, source)).cases
    assert case.detail == "printed b'[]\\n'", case


async def test_admission(grader: Grader) -> None:
    assert (await grader.admit(DOUBLE, RIGHT)).score == 1.0
    with pytest.raises(TaskRefused, match="stub"):
        await grader.admit(ProgramTask((ProgramCase(b"", b""),)), "print()")


@pytest.mark.parametrize(
    ("expected", "actual", "compare", "rules", "answer"),
    [
        (b"1\n", b"1", "exact", Rules(), False),
        (b"1\n", b"1\n", "exact", Rules(), True),
        (b"1\n2\n", b"  1 \r\n2", "lines", Rules(), True),
        (b"1\n2", b"1 2", "lines", Rules(), False),
        (b"1\n2", b"1\n\n2", "lines", Rules(), False),
        (b"1  2", b"1 2", "lines", Rules(), False),
        (b"1\n2", b" 1   2\n", "words", Rules(), True),
        (b"1 2", b"2 1", "words", Rules(), False),
        (b"1 2", b"1 2 3", "words", Rules(), False),
        (b"1 2 3", b"1 2", "words", Rules(), False),
        (b"", b"\n", "lines", Rules(), True),
        (b"", b"0", "lines", Rules(), False),
        (b"YES", b"yes", "lines", Rules(), False),
        (b"0.5", b"0.50", "lines", Rules(), False),
        (b"0.5", b"0.50", "lines", NEAR, True),
        (b"0.5  x", b"0.5000001 x", "lines", NEAR, True),
        (b"0.5", b".5e0", "words", NEAR, True),
        (b"0.5", b"0.51", "words", NEAR, False),
        (b"0.5", b"nan", "words", NEAR, False),
        (b"nan", b"nan", "words", NEAR, True),
        (b"0.5", b"inf", "words", NEAR, False),
        (b"1e999", b"2e999", "words", NEAR, False),
        (b"1.0", b"1_0", "words", NEAR, False),
        (b"10", b"1_0", "words", NEAR, False),
        (b"1", "\u0661".encode(), "words", NEAR, False),
        (b"1000000000", b"1000000001", "words", Rules(rel_tol=1e-6), False),
        (b"1000000000.0", b"1000000001", "words", Rules(rel_tol=1e-6), True),
        (b"0012", b"12", "words", NEAR, True),
        (b"12", b"0x0c", "words", NEAR, False),
        (b"\xff", b"\xff", "lines", Rules(), True),
        (b"a", b"\xff", "lines", Rules(), False),
        ("a\u2028b".encode(), b"a\nb", "lines", Rules(), False),
        (b"9" * 5000 + b".0", b"9" * 5000, "words", NEAR, False),
    ],
)
async def test_outputs(expected: bytes, actual: bytes, compare: str, rules: Rules, answer: bool) -> None:
    assert is_same_output(expected, actual, compare, rules) is answer  # type: ignore[arg-type]


async def test_a_task_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="no cases"):
        ProgramTask(())
    with pytest.raises(ValueError, match="exact"):
        ProgramTask((ProgramCase(b"", b""),), "exact", NEAR)
