"""Rows of well-known data sets as problems: HumanEval, MBPP, APPS and TACO, LiveCodeBench, and turngym's own form."""

from __future__ import annotations

import ast
import base64
import io
import json
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from turngym.envs.builtin.code.problem import AssertTests, FunctionTests, Problem, ProgramTests

Row = Mapping[str, Any]
_MOST_BYTES: Final = 1 << 28


def own(row: Row) -> Problem:
    """The fields of `Problem` themselves."""
    return Problem.model_validate({key: value for key, value in row.items() if value is not None})


def human_eval(row: Row) -> Problem:
    """`prompt` (a function's head and docstring), `entry_point`, `test` (`check(candidate)`), `canonical_solution`.

    Examples in the docstring, in doctest's form, are the public tests.
    """
    name, prompt = row["entry_point"], row["prompt"]
    hidden = AssertTests(name=name, tests=(f"{row['test']}\ncheck(candidate)\n",), setup=prompt)
    examples = _examples(prompt, name)
    return Problem(
        id=str(row["task_id"]),
        statement=f"Complete this Python function; give the whole function.\n\n{prompt.strip()}",
        public=AssertTests(name=name, tests=tuple(examples), setup=prompt) if examples else None,
        hidden=hidden,
        solution=prompt + row["canonical_solution"] if row.get("canonical_solution") else None,
        prefix=prompt,
    )


def _examples(prompt: str, name: str) -> list[str]:
    """Assertions of the examples in a docstring: `>>> f(1)` and the literal on the next line."""
    import doctest

    tests = []
    try:
        found = doctest.DocTestParser().get_examples(prompt)
    except ValueError:  # it looks like doctest's form, and is not
        return []
    for example in found:
        source, want = example.source.strip(), example.want.strip()
        try:
            expected = ast.literal_eval(want)
            call = ast.parse(source, mode="eval").body
        except (ValueError, SyntaxError):
            continue
        if not any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(call)):
            continue
        said = ast.unparse(call)  # without comments
        is_close = f"abs({said} - {expected!r}) < 1e-6"
        tests.append(f"assert {is_close if isinstance(expected, float) else f'({said}) == {expected!r}'}")
    return tests


def mbpp(row: Row) -> Problem:
    """`text` (or `prompt`), `code`, `test_list` (assertions), `test_setup_code` or `test_imports`.

    The first assertion is the public test, and is in the statement, since it alone says what the function is called.
    """
    asserts: list[str] = list(row["test_list"])
    name = _function_under_test(asserts, row.get("code") or "")
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports") or ())
    every = [*asserts, *(row.get("challenge_test_list") or ())]
    asked = row.get("text") or row["prompt"]
    return Problem(
        id=str(row["task_id"]),
        statement=f"{asked.strip()}\n\nYour code should pass this test:\n{asserts[0]}",
        public=AssertTests(name=name, tests=(asserts[0],), setup=setup),
        hidden=AssertTests(name=name, tests=tuple(every), setup=setup),
        solution=row.get("code"),
    )


def _function_under_test(asserts: Sequence[str], code: str) -> str:
    """The function that the assertions call: one that the solution defines, or else no builtin."""
    defined = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    called = [
        node.func.id
        for node in ast.walk(ast.parse(asserts[0]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    for name in called:
        if name in defined or (
            not defined and name not in dir(__builtins__) and name not in ("set", "sorted")
        ):
            return name
    raise ValueError(f"no function is tested by {asserts[0]!r}")


def apps(row: Row, *, public: int = 1) -> Problem:
    """APPS and TACO: `question`, `input_output` (inputs, outputs, perhaps fn_name), `solutions`, `starter_code`.

    The data names no public tests: the first case, which statements usually show, is one. Outputs of functions are
    wrapped in a list of one, as these data sets do.
    """
    tests = _json(row["input_output"])
    inputs, outputs = tests["inputs"], tests["outputs"]
    if len(inputs) != len(outputs) or not inputs:
        raise ValueError(f"{len(inputs)} inputs and {len(outputs)} outputs")
    starter = (row.get("starter_code") or "").strip()
    every: FunctionTests | ProgramTests
    if tests.get("fn_name"):
        unwrapped = [out[0] if isinstance(out, list) and len(out) == 1 else out for out in outputs]
        name = _method(tests["fn_name"], starter)
        every = FunctionTests(name=name, cases=tuple(zip(map(tuple, inputs), unwrapped, strict=True)))
    else:
        cases = tuple(zip(map(_text, inputs), map(_text, outputs), strict=True))
        every = ProgramTests(cases=cases, compare="words")
    solutions = _json(row.get("solutions") or "[]")
    return Problem(
        id=str(row.get("id", row.get("problem_id", ""))),
        statement=_statement(row["question"], starter, every),
        public=every.model_copy(update={"cases": every.cases[:public]}) if public else None,
        hidden=every,
        solution=solutions[0] if solutions else None,
        tags=(str(row["difficulty"]),) if row.get("difficulty") else (),
    )


def live_code_bench(row: Row) -> Problem:
    """`question_content`, `starter_code`, `public_test_cases`, `private_test_cases`, `metadata`."""
    public, private = _json(row["public_test_cases"]), _private(row["private_test_cases"])
    starter = (row.get("starter_code") or "").strip()
    name = _json(row.get("metadata") or "{}").get("func_name")
    shown = _lcb_tests(public, name, starter) if public else None
    every = _lcb_tests([*public, *private], name, starter)
    return Problem(
        id=str(row.get("question_id", row.get("id", ""))),
        statement=_statement(row["question_content"], starter, every),
        public=shown,
        hidden=every,
        tags=(str(row["difficulty"]),) if row.get("difficulty") else (),
    )


def _lcb_tests(cases: Sequence[Row], name: str | None, starter: str) -> FunctionTests | ProgramTests:
    if all(case["testtype"] == "functional" for case in cases):
        if not name:
            raise ValueError("a functional test, and no func_name in its metadata")
        pairs = [
            (
                tuple(json.loads(line) for line in case["input"].split("\n") if line.strip()),
                json.loads(case["output"]),
            )
            for case in cases
        ]
        return FunctionTests(name=_method(name, starter), cases=tuple(pairs))
    return ProgramTests(cases=tuple((case["input"], case["output"]) for case in cases))


class _TextOnly(pickle.Unpickler):
    """Reads texts and lists; a pickle that names any class or function is refused, and so runs nothing."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"private tests that name {module}.{name} are not read")


def _private(packed: str) -> list[Row]:
    """LiveCodeBench's private tests: JSON, or base64 of a compressed pickle of its text."""
    try:
        return list(json.loads(packed))
    except ValueError:
        unpacked = zlib.decompressobj().decompress(base64.b64decode(packed), _MOST_BYTES)
    try:
        return list(json.loads(_TextOnly(io.BytesIO(unpacked)).load()))
    except pickle.UnpicklingError as error:
        raise ValueError(str(error)) from error


def _method(name: str, starter: str) -> str:
    return f"Solution.{name}" if "class Solution" in starter else name


def _statement(asked: str, starter: str, tests: FunctionTests | ProgramTests) -> str:
    if isinstance(tests, ProgramTests):
        how = "Write a Python program that reads standard input and prints to standard output."
    else:
        how = f"Write the Python function `{tests.name}`."
    return f"{asked.strip()}\n\n{how}" + (f" Begin with:\n\n{starter}" if starter else "")


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _text(lines: Any) -> str:
    return lines if isinstance(lines, str) else "\n".join(map(str, lines))


FORMS: dict[str, tuple[frozenset[str], Callable[[Row], Problem]]] = {
    "own": (frozenset({"statement", "hidden"}), own),
    "human_eval": (frozenset({"prompt", "entry_point", "test"}), human_eval),
    "mbpp": (frozenset({"test_list"}), mbpp),
    "apps": (frozenset({"question", "input_output"}), apps),
    "live_code_bench": (frozenset({"question_content", "private_test_cases"}), live_code_bench),
}
"""Each form's name, the keys that tell it, and what reads it."""


def problem_of(row: Row, form: str = "auto") -> Problem:
    """A row as a problem.

    Raises:
        ValueError: the form is none of these, or the row is none of that form.
        KeyError: the row lacks something.
    """
    if form != "auto":
        if form not in FORMS:
            raise ValueError(f"no form {form!r}; there are auto, {', '.join(FORMS)}")
        return FORMS[form][1](row)
    for keys, read in FORMS.values():
        if keys <= row.keys():
            return read(row)
    told = "; ".join(f"{name}: {', '.join(sorted(keys))}" for name, (keys, _) in FORMS.items())
    raise ValueError(f"this row's keys ({', '.join(sorted(row))}) are of no known form ({told})")
