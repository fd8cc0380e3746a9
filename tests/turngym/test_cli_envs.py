"""`turngym envs`: what is listed, checked and written."""

from __future__ import annotations

import json
from collections.abc import Iterator

import gymnasium
import pytest

from turngym.envs import Env, questions, register, registry, user
from turngym.envs.errors import MissingExtra

from .conftest import Ask


class Silent(Env):
    """Pays for nothing."""

    tasks = questions(train={"Say red": "reddish"}, test={"Say blue": "bluish"})

    def step(self, action):
        return (user("fine"),), 1.0, True, False, {"metrics": {"success": 1.0}}


def lacks(split: str | None = None) -> Env:
    raise MissingExtra('needs nosuchlib: pip install "turngym[nosuch]"')


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two environments that are not sound, beside one that is."""
    kept = "turngym/GuessNumber-v0"
    monkeypatch.setattr(registry, "_details", {kept: registry._details[kept]})
    monkeypatch.setattr(registry, "load_plugins", lambda: None)
    register("t/Silent-v0", Silent)
    register("t/Lacks-v0", lacks, extras=("nosuch",))
    yield
    for id in ("t/Silent-v0", "t/Lacks-v0"):
        gymnasium.registry.pop(id)


SHORT = ("--tasks", "1", "--episodes", "3")


def test_a_check_is_one_law_a_line(ask: Ask):
    done = ask("envs", "check", "turngym/GuessNumber-v0", *SHORT)
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) >= 23
    assert all(line.startswith("✓ ") for line in lines)
    assert "✓ random play raises nothing  3 episodes, " in done.out


def test_a_broken_law_is_exit_code_1(ask: Ask):
    done = ask("envs", "check", "t/Silent-v0", *SHORT)
    assert done.code == 1
    assert "✗ saying nothing earns no success  an empty reply solves task train-0\n" in done.out


def test_a_missing_extra_is_named(ask: Ask):
    done = ask("envs", "check", "t/Lacks-v0")
    assert (done.code, done.out) == (2, "")
    assert done.err == 'error: needs nosuchlib: pip install "turngym[nosuch]"\n'


def test_all_are_checked(ask: Ask):
    done = ask("envs", "check", "--all", *SHORT)
    assert done.code == 1
    assert 't/Lacks-v0\n– not checked: needs nosuchlib: pip install "turngym[nosuch]"\n' in done.out
    assert done.out.endswith("\n1 of 3 keep every law, 1 not checked\n")
    as_json = json.loads(ask("envs", "check", "--all", *SHORT, "--json").out)
    assert [(one["id"], bool(one["not_checked"])) for one in as_json] == [
        ("t/Lacks-v0", True),
        ("t/Silent-v0", False),
        ("turngym/GuessNumber-v0", False),
    ]
    assert {"name", "ok", "detail"} == set(as_json[1]["laws"][0])


@pytest.mark.parametrize("argv", [(), ("turngym/GuessNumber-v0", "--all")])
def test_one_or_all(ask: Ask, argv: tuple[str, ...]):
    done = ask("envs", "check", *argv)
    assert done.code == 2
    assert "name one environment, or write --all" in done.err


def test_the_list_says_what_there_is_and_what_is_missing(ask: Ask):
    done = ask("envs", "list")
    assert done.code == 0
    assert done.out == (
        "t/Lacks-v0  extra nosuch (not installed)\n"
        '    not installed: needs nosuchlib: pip install "turngym[nosuch]"\n'
        "t/Silent-v0  text · no limit of turns · train 1, test 1\n"
        "    Pays for nothing.\n"
        "turngym/GuessNumber-v0  game · 5 turns · train 16, test 16\n"
        "    Find a hidden number; each answer says higher or lower.\n"
    )
    listed = {one["id"]: one for one in json.loads(ask("envs", "list", "--json").out)}
    assert listed["turngym/GuessNumber-v0"]["sizes"] == [16, 16]
    assert listed["t/Lacks-v0"]["lacks_extra"]
