import base64
import json
import pickle
import zlib

import pytest

from turngym.envs.builtin.code.forms import problem_of
from turngym.envs.builtin.code.problem import AssertTests, FunctionTests, Problem, ProgramTests

HUMAN_EVAL = {
    "task_id": "X/1",
    "prompt": 'import math\n\ndef half(x):\n    """Half of x.\n\n    >>> half(3)  # not 1\n    1.5\n'
    '    >>> half(4) > 1\n    True\n    >>> other(1)\n    1\n    >>> half(0)\n    zero\n    """\n',
    "entry_point": "half",
    "canonical_solution": "    return x / 2\n",
    "test": "def check(candidate):\n    assert candidate(8) == 4\n",
}
MBPP = {
    "task_id": 7,
    "text": "Write a function to double.",
    "code": "def helper(x):\n    return x\n\ndef double(x):\n    return 2 * helper(x)",
    "test_list": ["assert set(double([1])) == {1}", "assert double(2) == 4"],
    "test_setup_code": "",
    "challenge_test_list": ["assert double(3) == 6"],
}
STDIN = {
    "problem_id": 3,
    "question": "Add.",
    "solutions": json.dumps(["print(sum(map(int, input().split())))"]),
    "input_output": json.dumps({"inputs": ["1 2\n", ["3 4"]], "outputs": ["3\n", ["7"]]}),
    "difficulty": "interview",
}
CALLS = {
    "id": 4,
    "question": "Swap.",
    "input_output": {"fn_name": "swap", "inputs": [[1, 2], [3, 4]], "outputs": [[[2, 1]], [[4, 3]]]},
    "starter_code": "class Solution:\n    def swap(self, a, b):\n",
}
LCB = {
    "question_id": "abc_1",
    "question_content": "Echo.",
    "starter_code": "",
    "public_test_cases": json.dumps([{"input": "a", "output": "a", "testtype": "stdin"}]),
    "private_test_cases": json.dumps([{"input": "b", "output": "b", "testtype": "stdin"}]),
    "metadata": "{}",
    "difficulty": "easy",
}


def packed(cases, load=lambda text: text):
    return base64.b64encode(zlib.compress(pickle.dumps(load(json.dumps(cases))))).decode()


def test_human_eval_shows_the_examples_of_the_docstring():
    problem = problem_of(HUMAN_EVAL)
    assert isinstance(problem.public, AssertTests)
    assert problem.public.tests == ("assert abs(half(3) - 1.5) < 1e-6", "assert (half(4) > 1) == True")
    assert problem.hidden.tests[0].endswith("check(candidate)\n")
    assert problem.solution.endswith("return x / 2\n")
    assert problem.prefix == HUMAN_EVAL["prompt"]
    assert problem_of({**HUMAN_EVAL, "prompt": "def half(x):\n"}).public is None


def test_mbpp_shows_the_first_test_and_finds_the_function():
    problem = problem_of(MBPP)
    assert (problem.id, problem.hidden.name, len(problem.hidden.tests)) == ("7", "double", 3)
    assert problem.public.tests == (MBPP["test_list"][0],)
    assert MBPP["test_list"][0] in problem.statement
    assert MBPP["test_list"][1] not in problem.statement
    with pytest.raises(ValueError, match="no function is tested"):
        problem_of({**MBPP, "test_list": ["assert 1"]})


def test_apps_reads_programs_and_functions():
    problem = problem_of(STDIN)
    assert isinstance(problem.hidden, ProgramTests)
    assert problem.hidden.cases == (("1 2\n", "3\n"), ("3 4", "7"))
    assert (problem.public.cases, problem.tags) == (problem.hidden.cases[:1], ("interview",))
    problem = problem_of(CALLS)
    assert isinstance(problem.hidden, FunctionTests)
    assert (problem.hidden.name, problem.hidden.cases[1]) == ("Solution.swap", ((3, 4), [4, 3]))
    assert "class Solution" in problem.statement
    with pytest.raises(ValueError, match="2 inputs and 1 outputs"):
        problem_of({**STDIN, "input_output": {"inputs": ["1", "2"], "outputs": ["1"]}})


def test_live_code_bench_reads_compressed_tests_and_both_kinds():
    problem = problem_of(LCB)
    assert (problem.public.size, problem.hidden.size) == (1, 2)
    private = [{"input": "[1, 2]\n3", "output": "[3]", "testtype": "functional"}]
    row = {**LCB, "public_test_cases": json.dumps(private), "private_test_cases": packed(private),
           "metadata": '{"func_name": "f"}', "starter_code": "class Solution:\n    def f(self, a, b): ..."}  # fmt: skip
    problem = problem_of(row)
    assert (problem.hidden.name, problem.hidden.cases[1]) == ("Solution.f", (([1, 2], 3), [3]))
    with pytest.raises(ValueError, match="no func_name"):
        problem_of({**row, "metadata": "{}"})


class Evil:
    def __reduce__(self):
        return print, ("this would have run",)


def test_a_pickle_that_would_run_something_is_refused(capsys):
    with pytest.raises(ValueError, match=r"builtins\.print"):
        problem_of({**LCB, "private_test_cases": packed([], lambda text: Evil())})
    assert capsys.readouterr().out == ""


def test_own_form_and_unknown_ones():
    problem = Problem(id="p", statement="?", hidden=ProgramTests(cases=(("", "1"),)))
    assert problem_of(problem.model_dump(mode="json")) == problem
    with pytest.raises(ValueError, match="of no known form"):
        problem_of({"a": 1})
    with pytest.raises(ValueError, match="no form 'x'"):
        problem_of({}, "x")
