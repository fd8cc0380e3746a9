"""docs/authoring.md, followed from its first line to a trained agent, as a person would, but with a tiny budget."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from .authors import ROOT, SHORT, Installed

PAGE = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
LESS = {
    ("turngym", "train"): SHORT,
    ("turngym", "eval"): ["-n", "2", "--max-turns", "4", "--max-turn-tokens", "16"],
    ("turngym", "envs"): [],
    ("turngym", "play"): [],
}
"""What is added to a command so that it takes seconds."""
TYPED = 'price(article="A17")\ntimes(1, 2)\n7\n'


@pytest.mark.slow
def test_the_page_leads_from_nothing_to_a_trained_agent(tmp_path: Path):
    place = Installed.into(tmp_path)
    done: list[str] = []
    for kind, text in BLOCKS:
        if kind == "sh":
            for line in text.splitlines():
                command = shlex.split(line)
                if command[:3] == ["pip", "install", "-e"]:
                    place.install(command[3])
                    continue
                more = LESS[command[0], command[1]]
                result = place.turngym(*command[1:], *more, typed=TYPED if command[1] == "play" else "")
                assert result.returncode == 0, f"{line}: {result.stdout}{result.stderr}"
                done.append(result.stdout)
        elif text.startswith("# file: "):
            path = tmp_path / text.partition("\n")[0].removeprefix("# file: ")
            assert path.is_file(), "the page replaces what the command wrote"
            path.write_text(text)
    assert "success   1.000" in done[3], "the expert of the package as it was written"
    assert done[4].count("✓") >= 23, "the environment that the page writes keeps every law"
    assert re.search(r"price  \d+\n", done[5]), done[5]
    assert (tmp_path / "runs" / "my-shop" / "final" / "config.json").is_file()
    assert "episodes of 2 tasks" in done[-1]


def test_the_tables_are_toml():
    for kind, text in BLOCKS:
        if kind == "toml":
            assert tomllib.loads(text)


def test_every_block_is_run_by_a_test():
    assert {kind for kind, _ in BLOCKS} == {"sh", "python", "toml"}


def test_links_lead_somewhere():
    anchors = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        page, _, anchor = target.partition("#")
        assert not page or (ROOT / "docs" / page).exists(), target
        assert page or anchor in anchors, target
