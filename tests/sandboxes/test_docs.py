"""The page about sandboxes shows code that runs."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

from turngym.sandboxes import open_backend

from .served import need_namespaces

PAGE = (Path(__file__).parents[2] / "docs" / "sandboxes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_example_prints_what_it_says(capsys):
    need_namespaces()
    exec(compile(BLOCKS[0], "sandboxes.md", "exec"), {})
    assert capsys.readouterr().out.split() == ["exited", "0", "42", "21"]


def test_the_grading_example_gives_full_marks(capsys):
    need_namespaces()
    (block,) = [block for block in BLOCKS if "Grader" in block]

    async def play() -> None:
        backend = open_backend("namespace")
        try:
            space: dict[str, object] = {"backend": backend}
            code = compile(block, "sandboxes.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            await eval(code, space)
        finally:
            await backend.close()

    asyncio.run(play())
    assert capsys.readouterr().out.split() == ["1.0"]
