import asyncio
import time

import pytest

from turngym.envs.errors import GradingError, InfrastructureError, MissingExtra
from turngym.envs.verify import averify, close_workers, verifier, verify
from turngym.envs.verify.pool import JobEnded

NESTED = "(" * 200 + "7" + ")" * 200


class Scripted:
    """Stands for the workers; answers or raises what it was told, in order."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.jobs = []

    async def run(self, job):
        self.jobs.append(job)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def scripted(monkeypatch):
    def install(*outcomes):
        pool = Scripted(*outcomes)
        monkeypatch.setattr(verifier, "_workers", pool)
        return pool

    return install


OPEN = (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}")  # equal, which only a worker can tell


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9^9}}", "(10^7)!", "2^{2^{2^{2^{2^{2}}}}}", NESTED, "1" + "+1" * 900, "-" * 1000 + "7",
        "{" * 500 + "7" + "}" * 500, "x^" * 500 + "x", "7" * 1999, "\\frac{1}{" * 40 + "7" + "}" * 40,
        "\\sqrt{" * 100 + "7" + "}" * 100, "7" * 100_000, "\\boxed{" * 5000, "\\boxed{7} or " * 5000, "\\(" * 50_000,
        "\\sum_{k=1}^{10^{12}} k", "\\int_0^{10^9} x^{10^9} dx", "\\binom{10^9}{5 \\cdot 10^8}",
        "the answer is " * 5000,
        "e^{e^{e^{e^{e}}}}", "0.\\overline{" + "1" * 5000 + "}", "1e999999999", "\ud800", "\x00", "7\u0303",
    ],
    ids=range(25),
)  # fmt: skip
@pytest.mark.parametrize("is_boxed", [True, False])
def test_nasty_answers_are_wrong_and_cost_little(answer, is_boxed):
    verify(*OPEN)  # the workers are there
    begun = time.process_time(), time.perf_counter()
    assert verify("42", f"\\boxed{{{answer}}}" if is_boxed else answer) is False
    assert time.process_time() - begun[0] < 2.0


def test_many_hanging_answers_hold_nobody_up_for_long():
    """Answers that use up their processor time are wrong, and the workers go on."""
    costly = r"\int_0^1 \frac{\sin(x^{17}) e^{x^5} \ln(x+1)}{\sqrt{x^7+1}} dx"

    async def ask():
        hung = averify(r"\int_0^1 \frac{\sin(x^{17})}{x} dx", f"\\boxed{{{costly}}}")
        return await asyncio.gather(hung, *(averify(*OPEN) for _ in range(50)))

    hung, *others = asyncio.run(ask())
    assert hung is False
    assert others == [True] * 50


@pytest.mark.parametrize(
    "reference", [r"\frac{1}{", "", "x^", "1 +", r"\frac{1}", "((1", r"\sqrt{", "=", "\\boxed{", "}", "?"]
)
@pytest.mark.parametrize("reply", ["", "5", r"\boxed{\frac{1}{2}}", "itself"])
def test_a_reference_that_cannot_be_read_is_an_error_whatever_the_answer(reference, reply):
    with pytest.raises(GradingError, match=r"the reference .* cannot be read"):
        verify(reference, reference if reply == "itself" else reply)


@pytest.mark.parametrize(
    ("reference", "right", "wrong"),
    [
        (r"\int_0^1 2x\,dx", r"\int_0^1 2x\,dx", r"\int_0^1 3x\,dx"),
        (r"\sum_{k=1}^{5} k", "15", "16"),
        (r"\overline{AB}", r"$\overline{AB}$", r"\overline{AC}"),
        (r"\triangle ABC", r"\boxed{\triangle ABC}", r"\triangle ABD"),
        ("June 20", "june 20", "July 20"),
        ("6:00 pm", r"6:00 \text{ pm}", "6:00 am"),
        ("9^{9^{9^9}}", "9^{9^{9^9}}", "9^{9^{9^8}}"),
        ("f(2)<f(1)<f(4)", "f(4) > f(1) > f(2)", "f(1)<f(2)<f(4)"),
    ],
)
def test_references_beyond_the_reader(reference, right, wrong):
    assert verify(reference, right)
    assert not verify(reference, wrong)
    assert not verify(reference, "")


def test_work_that_is_still_to_be_done_is_no_answer():
    assert not verify("55", r"\boxed{\sum_{k=1}^{10} k}")
    assert not verify("1", r"\boxed{\int_0^1 2x\,dx}")
    assert not verify("-2", r"\boxed{\det\begin{pmatrix}1&2\\3&4\end{pmatrix}}")
    assert not verify("x = 5", r"\boxed{2x + 3 = 13}")
    assert not verify("x > 4", r"\boxed{2x > 8}")


def test_what_arithmetic_decides_needs_no_worker(scripted):
    pool = scripted()
    assert verify("1/2", r"\boxed{0.5}")
    assert not verify(r"\sqrt{2}", r"\boxed{\sqrt{3}}")
    assert verify(r"(x+1)^2", r"\boxed{(x+1)^2}")
    assert not verify("42", "")
    assert pool.jobs == []


@pytest.mark.parametrize("how", ["crash", "killed", "stuck", "error", "memory"])
def test_a_verifier_that_fails_once_is_tried_again(scripted, how):
    scripted(JobEnded(how, "answer", "why"), True)
    assert verify(*OPEN)
    scripted(InfrastructureError("no template"), False)
    assert not verify(*OPEN)


@pytest.mark.parametrize(
    ("how", "stage", "is_wrong"),
    [
        ("cost", "answer", True), ("crash", "answer", True), ("memory", "answer", True), ("cost", "", False),
        ("crash", "", False), ("memory", "", False), ("killed", "answer", False), ("stuck", "answer", False),
        ("error", "answer", False),
    ],
)  # fmt: skip
def test_whose_fault_it_is_that_there_is_no_verdict(scripted, how, stage, is_wrong):
    """An answer that uses up its limits, or crashes what reads it, is wrong; a reference that does is an error, and so
    is a worker that is ended from outside."""
    scripted(*[JobEnded(how, stage, "why")] * 2)
    if is_wrong:
        assert verify(*OPEN) is False
    else:
        with pytest.raises(GradingError):
            verify(*OPEN)


def test_the_missing_library_is_named(monkeypatch):
    close_workers()
    monkeypatch.setattr(verifier, "_workers", None)
    monkeypatch.setattr(verifier.importlib.util, "find_spec", lambda name: None)
    assert verify("1/2", "0.5")
    with pytest.raises(MissingExtra, match=r"turngym\[math\]"):
        verify(*OPEN)


def test_awaited_on_any_loop_it_says_the_same():
    assert asyncio.run(averify(*OPEN)) is True
    assert asyncio.run(averify(*OPEN)) is True
    assert verify(*OPEN) is True
