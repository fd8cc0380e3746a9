"""A virtual environment as an author of environments has one: turngym is installed, and new packages are."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHORT = [
    word
    for setting in (
        "steps=2", "sft.steps=3", "sft.episodes=16", "rollout.groups_per_step=2", "rollout.group_size=2",
        "rollout.max_turn_tokens=16", "eval.tasks=2",
    )
    for word in ("--set", setting)
]  # fmt: skip
"""What makes a training run of the demo's recipe take seconds."""


@dataclass(frozen=True)
class Installed:
    """A virtual environment, and the folder that its author works in."""

    folder: Path
    python: Path

    @classmethod
    def into(cls, folder: Path) -> Installed:
        """A new one. turngym is this checkout; its dependencies are those of this test run."""
        venv.create(folder / "venv", with_pip=False)
        place = cls(folder, folder / "venv" / "bin" / "python")
        site = Path(place.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        (site / "here.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
        return place

    def run(self, *argv: str | Path, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run Python there."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            [str(self.python), *map(str, argv)],
            cwd=self.folder,
            env=environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=280,
        )

    def turngym(self, *argv: str | Path, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command there."""
        return self.run("-c", "from turngym.cli import main; main()", *argv, typed=typed)

    def install(self, package: str) -> None:
        """`pip install -e`, without a network."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-index"]
        editable = ["--no-deps", "--no-build-isolation", "--editable", str(self.folder / package)]
        done = subprocess.run([*pip, *editable], capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
