"""Repo: a small repository with a defect; find it, mend it, and let hidden tests judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from turngym.envs.builtin.repo.grading import grade
from turngym.envs.builtin.repo.tasks import OWN, repo_tasks
from turngym.envs.builtin.repo.workspace import Workspace
from turngym.envs.env import ResetResult
from turngym.envs.messages import Message, ToolCall, assistant
from turngym.envs.rewards import reward
from turngym.envs.tasks import Task
from turngym.envs.tool_env import ToolEnv
from turngym.envs.tools import tool
from turngym.sandboxes import Limits
from turngym.sandboxes.opening import DEFAULT
from turngym.sandboxes.service import sandbox_service

LIMITS: Final = Limits(memory_mib=512, processes=64, disk_mib=32, wall_s=10.0, cpu_s=10.0)
"""Of each program that the agent runs."""


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Read what is broken, put it right, run the tests, and say so."""
    breaks = task.target["breaks"]
    turn = sum(message.role == "assistant" for message in history)
    if turn == 0:
        paths = dict.fromkeys(one["file"] for one in breaks)
        calls = [ToolCall.of("read_file", {"path": path}, id=f"read_{n}") for n, path in enumerate(paths)]
        return assistant("I look at the code.", *calls)
    if turn == 1:
        edits = [{"path": one["file"], "old": one["wrong"], "new": one["right"]} for one in reversed(breaks)]
        return assistant(
            None, *(ToolCall.of("edit", arguments, id=f"edit_{n}") for n, arguments in enumerate(edits))
        )
    if turn == 2:
        return assistant(None, ToolCall.of("run", {"argv": ["python3", "-m", "unittest"]}, id="run"))
    return assistant("The defect is mended.")


def random_work(task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """Tools with real and odd paths, edits that make little sense, programs that fail; rarely the end."""
    if rng.random() < 0.1:
        return assistant("Done.")
    paths = [
        *task.metadata["files"],
        ".",
        "tests",
        "../../etc/passwd",
        "/etc/passwd",
        "no/such/file.py",
        "a\0b",
        "",
        "x" * 500,
    ]
    path = str(rng.choice(paths))
    programs = [
        ["python3", "-m", "unittest"], ["python3", "-c", "print(1)"], ["sh", "-c", "rm -rf tests; ls"], ["nothing"], [],
        ["python3", "-c", "open('blob', 'wb').write(bytes(range(256)) * 9)"], ["ln", "-s", "/etc/passwd", "link"],
        ["python3", "-c", "open('big', 'wb').write(b'x' * (5 << 20))"],
    ]  # fmt: skip
    choices: list[tuple[str, dict[str, Any]]] = [
        ("list_files", {"path": path}),
        ("read_file", {"path": path, "first_line": int(rng.integers(-2, 60))}),
        ("search", {"text": str(rng.choice(["def", "return", "", "zzz", "("]))}),
        ("edit", {"path": path, "old": str(rng.choice(["return", "+", "", "def "])), "new": "pass  # "}),
        ("write_file", {"path": path, "content": str(rng.choice(["", "x = 1\n", "\ud800"]))}),
        ("run", {"argv": programs[int(rng.integers(len(programs)))]}),
    ]
    name, arguments = choices[int(rng.integers(len(choices)))]
    return assistant(None, ToolCall.of(name, arguments, id=f"call_{len(history)}"))


class Repo(ToolEnv):
    """Mend a defect in a small repository, with tools to list, read, search, edit and run.

    A message without calls ends the episode, as does the last turn. Then the files are judged by hidden tests, in a
    fresh sandbox: the reward is 1 if all of them pass. What the agent's sandbox held besides files does not count.

    Repository and hidden test share a process, so this verdict is weaker than that of the other code environments
    (`docs/envs/repo.md` says what holds).

    Metrics: `success`, `tests` (share of hidden tests that pass), `calls`, `errors`.

    Args:
        folder: repositories in the format of `tasks.py`; default: turngym's own.
        max_turns: a rule: the episode ends after so many messages.
        sandbox: the backend's name.
        limits: of each program that the agent runs.
        allow_weaker: accept a backend that does not hold untrusted code in.
        split: "train" or "test".
    """

    kind: ClassVar[str] = "code"
    system_prompt = "You are a careful programmer. Look before you edit, and run the tests."
    policies: ClassVar = {"expert": expert, "random": random_work}

    def __init__(
        self,
        *,
        folder: str | Path = OWN,
        max_turns: int = 30,
        sandbox: str = DEFAULT,
        limits: Limits = LIMITS,
        allow_weaker: bool = False,
        split: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks=repo_tasks(Path(folder)), split=split, max_turns=max_turns, **kwargs)
        self._sandbox = (sandbox, allow_weaker)
        self._limits = limits

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """The broken files."""
        self._workspace = Workspace(self.task.metadata["files"], self._limits)
        self._passed: dict[str, bool] | None = None
        return super().reset(seed=seed, options=options)

    @tool
    def list_files(self, path: str = ".") -> str:
        """List the files below a folder, with their sizes in bytes.

        Args:
            path: a folder of the repository.
        """
        return self._workspace.listed(path)

    @tool
    def read_file(self, path: str, first_line: int = 1, last_line: int | None = None) -> str:
        """Show lines of a file, each with its number.

        Args:
            path: of the file.
            first_line: the first line to show, from 1.
            last_line: the last line to show; default: the file's last.
        """
        return self._workspace.shown(path, first_line, last_line)

    @tool
    def search(self, text: str, path: str = ".") -> str:
        """Find a text in the files: path, line number and line of each place.

        Args:
            text: what to look for, as it is written.
            path: a folder or file to look in.
        """
        return self._workspace.found(text, path)

    @tool
    def edit(self, path: str, old: str, new: str) -> str:
        """Replace a text in a file. It must occur exactly once.

        Args:
            path: of the file.
            old: the text to replace, with its line breaks and indentation.
            new: what stands there afterwards.
        """
        self._workspace.edit(path, old, new)
        return "edited"

    @tool
    def write_file(self, path: str, content: str) -> str:
        """Write a whole file, new or not.

        Args:
            path: of the file.
            content: all of its text.
        """
        self._workspace.write(path, content)
        return "written"

    @tool
    async def run(self, argv: list[str]) -> str:
        """Run a program in the repository's folder, such as ["python3", "-m", "unittest"].

        Args:
            argv: the program and its arguments; no shell.
        """
        return await self._workspace.run(self._service(), argv)

    @reward
    async def solved(self) -> float:
        """1 if every hidden test passes."""
        return float(all((await self._outcomes()).values()))

    @reward(weight=0.0)
    async def tests(self) -> float:
        """Share of the hidden tests that pass."""
        outcomes = await self._outcomes()
        return sum(outcomes.values()) / len(outcomes)

    async def _outcomes(self) -> dict[str, bool]:
        if self._passed is None:
            original = self.task.metadata["files"]
            files = self._workspace.files
            self._passed = await grade(self._service(), self.task.target, original, files, self._limits)
        return self._passed

    def _service(self) -> Any:
        spec, allow_weaker = self._sandbox
        return sandbox_service(spec, allow_weaker=allow_weaker)
