"""What the README shows is what runs: its environment, its configuration and its commands, as written there."""

from __future__ import annotations

import re
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from pydantic import BaseModel

import turngym
from turngym.agents.simple import ScriptedAgent
from turngym.envs import check, make
from turngym.trainer.config import TrainConfig, load_config

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, containing: str) -> str:
    """The README's code block of a language that contains a text."""
    found = [
        code for code in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if containing in code
    ]
    assert len(found) == 1, f"{len(found)} {language} blocks contain {containing!r}"
    return found[0]


@pytest.fixture
def stock() -> Iterator[types.ModuleType]:
    """The README's environment, registered by executing its block."""
    code = block("python", "@register")
    assert len(code.strip().splitlines()) <= 25, "a new environment costs at most 25 lines"
    module = types.ModuleType("stock")
    exec(code, module.__dict__)
    yield module
    gymnasium.registry.pop("demo/Stock-v0")


def test_the_readme_s_environment_keeps_every_law(stock: types.ModuleType):
    assert [result for result in check("demo/Stock-v0") if not result.ok] == []
    assert make("demo/Stock-v0", split="test").split == "test"


def test_the_readme_s_configuration_trains(stock: types.ModuleType, tmp_path: Path):
    text = block("toml", "demo/Stock-v0")
    (tmp_path / "stock.toml").write_text(text, encoding="utf-8")
    # As written there, but for the number of steps and episodes.
    short = ["steps=1", "sft.steps=2", "sft.episodes=8", "rollout.groups_per_step=2", "eval.tasks=2"]
    config = load_config(tmp_path / "stock.toml", short)
    assert turngym.train(config, out=tmp_path / "run").steps == 1


def test_the_readme_s_python_face_runs(capsys: pytest.CaptureFixture[str]):
    exec(block("python", "turngym.rollout"), {})
    assert capsys.readouterr().out.startswith("1.0 1.000 [0.96")


def test_the_readme_s_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


@pytest.fixture
def authoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """What the authoring page's blocks define, one after the other."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
    module = types.ModuleType("authoring")
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, module.__dict__)
    return module


def test_the_authoring_page_s_environment_runs(authoring: types.ModuleType):
    env = authoring.Echo(split="test")
    env.reset(seed=0)
    assert env.step("no")[1:4] == (1.0, True, False)


def test_the_authoring_page_s_slow_environment_is_stepped_in_a_thread(authoring: types.ModuleType):
    env = authoring.Shop()
    stepped_in = []
    env.step = lambda action, step=env.step: (
        stepped_in.append(threading.current_thread().name),
        step(action),
    )[1]
    assert turngym.rollout(env, ScriptedAgent(["3"])).reward == 1.0
    assert stepped_in == ["turngym-env"]


def test_the_training_page_names_every_key():
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    fields = [
        (name, section)
        for name, field in TrainConfig.model_fields.items()
        for section in [section_of(field.annotation)]
    ]
    keys = [name for name, section in fields if section is None] + [
        f"{name}.{key}" for name, section in fields if section for key in section.model_fields
    ]
    missing = [key for key in keys if f"`{key}`" not in page and key != "algorithm.name"]
    assert missing == []


def section_of(annotation: object) -> type[BaseModel] | None:
    options = getattr(annotation, "__args__", (annotation,))
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)
