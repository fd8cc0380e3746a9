"""turngym's own problems: their solutions pass, and slightly wrong ones do not."""

import ast
import asyncio
import copy

import pytest

from turngym.envs import check
from turngym.envs.builtin.code.code_tests import OWN_PROBLEMS
from turngym.envs.builtin.code.coding import LIMITS, TOTAL_S
from turngym.envs.builtin.code.forms import problem_of
from turngym.envs.rows import read_rows
from turngym.evaluation.runner import evaluate
from turngym.sandboxes.service import sandbox_service

ID = "turngym/CodeTests-v0"
PROBLEMS = [problem_of(row) for row in read_rows(OWN_PROBLEMS)]
pytestmark = pytest.mark.usefixtures("namespaces")


def test_there_are_enough_of_both_forms():
    forms = [problem.hidden.form for problem in PROBLEMS]
    assert (forms.count("function"), forms.count("program")) == (22, 12)
    assert all(problem.hidden.size > problem.public.size >= 1 for problem in PROBLEMS)


def test_every_reference_solution_passes():
    for split in ("train", "test"):
        report = evaluate(ID, "expert", split=split, concurrency=8)
        assert (report.failed, report.success.mean, report.mean_turns) == ({}, 1.0, 1.0)


class Change(ast.NodeTransformer):
    """Changes the operator, comparison or constant of one number."""

    SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
             ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And}  # fmt: skip

    def __init__(self, wanted):
        self.wanted = wanted
        self.seen = 0

    def visit(self, node):
        node = self.generic_visit(node)
        if type(node) in self.SWAPS:
            self.seen += 1
            return self.SWAPS[type(node)]() if self.seen == self.wanted else node
        if isinstance(node, ast.Constant) and type(node.value) is int:
            self.seen += 1
            return ast.Constant(node.value + 1) if self.seen == self.wanted else node
        return node


def mutants(source):
    tree = ast.parse(source)
    counter = Change(0)
    counter.visit(copy.deepcopy(tree))
    for number in range(1, counter.seen + 1):
        yield ast.unparse(ast.fix_missing_locations(Change(number).visit(copy.deepcopy(tree))))


def test_the_hidden_tests_notice_most_small_mistakes():
    limits = LIMITS.model_copy(update={"wall_s": 1.0, "cpu_s": 1.0})

    async def survives(problem, source):
        verdict = await sandbox_service().grade(
            problem.hidden.graded(limits, TOTAL_S), source, stop_at_failure=True
        )
        return verdict.score == 1.0

    async def survivors():
        tried = [(problem, source) for problem in PROBLEMS for source in mutants(problem.solution)]
        found = await asyncio.gather(*(survives(problem, source) for problem, source in tried))
        return len(tried), [problem.id for (problem, _), alive in zip(tried, found, strict=True) if alive]

    count, alive = asyncio.run(survivors())
    assert count > 250
    assert len(alive) < 0.12 * count, alive
    assert max(map(alive.count, alive), default=0) <= 5, alive


def test_it_keeps_the_laws():
    assert [result for result in check(ID, tasks=8) if not result.ok] == []
