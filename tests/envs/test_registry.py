from __future__ import annotations

import importlib.metadata
import sys
import types

import gymnasium
import numpy as np
import pytest

from turngym.envs import Env, Message, list_envs, make, reference_policy, register, registry, spec
from turngym.envs.builtin.calculator import Calculator
from turngym.envs.errors import (
    ContractError,
    MissingExtra,
    UnknownArgument,
    UnknownEnv,
    UnknownPolicy,
    UnknownTask,
)

pytestmark = pytest.mark.usefixtures("clean_registry")


@pytest.fixture
def plugins(monkeypatch):
    """Pretend that packages with these entry points are installed."""

    def install(**points: str) -> None:
        found = importlib.metadata.EntryPoints(
            importlib.metadata.EntryPoint(name, value, registry.ENTRY_POINTS)
            for name, value in points.items()
        )
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found.select(group=group))

    return install


def test_make_gives_the_bare_environment():
    env = make("turngym/Calculator-v0", split="test", least=3)
    assert type(env) is Calculator
    assert (env.id, env.split) == ("turngym/Calculator-v0", "test")
    assert env.spec is not None
    assert env.spec.kwargs == {"split": "test", "least": 3}


@pytest.mark.parametrize("id", ["turngym/Calculator", "turngym.envs:turngym/Calculator-v0"])
def test_other_spellings(id):
    assert make(id).id == spec(id).id == "turngym/Calculator-v0"


@pytest.mark.parametrize(
    "id",
    [
        "turngym/Calculater-v0",
        "Calculator-v0",
        "calculator",
        "turngym/calculator-v0",
        "turngym/Calculator-v7",
    ],
)
def test_unknown_ids_name_the_nearest(id):
    with pytest.raises(UnknownEnv, match="did you mean turngym/Calculator-v0"):
        make(id)


def test_unknown_ids_without_anything_near_list_all():
    with pytest.raises(UnknownEnv, match=r"there are .*turngym/Calculator-v0, .*turngym/GuessNumber-v0"):
        make("zzzz")


def test_foreign_environments_are_refused():
    gymnasium.register("foreign/Env-v0", entry_point=lambda: gymnasium.Env())
    with pytest.raises(ContractError, match="plain Gymnasium"):
        make("foreign/Env-v0")


def test_wrong_splits_and_arguments():
    with pytest.raises(UnknownTask, match="no split 'dev'"):
        make("turngym/Calculator-v0", split="dev")
    with pytest.raises(ValueError, match="low ≤ high"):  # the environment's own, as it is
        make("turngym/GuessNumber-v0", high=-1)


@pytest.mark.parametrize(
    ("id", "name", "words"),
    [
        ("turngym/Calculator-v0", "leest", "takes no argument 'leest'; did you mean least"),
        ("turngym/Calculator-v0", "only_tool", "did you mean only_tools"),  # of a base class
        ("turngym/GuessNumber-v0", "nosuch", "it takes low, high, max_wrong, split"),
        ("turngym/GuessNumber-v0", "id", "takes no argument 'id'"),
        ("turngym/GuessNumber-v0", "disable_env_checker", "takes no argument 'disable_env_checker'"),
    ],
)
def test_unknown_arguments_name_those_that_there_are(id, name, words):
    with pytest.raises(UnknownArgument, match=words):
        make(id, **{name: 3})
    with pytest.raises(UnknownArgument, match=words):
        reference_policy(id, "expert", **{name: 3})


def test_unknown_arguments_of_a_function_and_of_one_that_takes_any(echo):
    register("t/Function-v0", lambda size=3: type(echo)())
    with pytest.raises(UnknownArgument, match="'split'; it takes size"):
        make("t/Function-v0", split="train")
    register("t/Any-v0", lambda **kwargs: type(echo)(**kwargs))
    with pytest.raises(TypeError, match="size") as caught:
        make("t/Any-v0", size=3)
    assert not isinstance(caught.value, UnknownArgument)
    assert "environment creator" not in str(caught.value)


@pytest.mark.parametrize("module", ["nosuch_module", "turngym.nosuch", ".relative", "broken_module"])
def test_a_module_that_cannot_be_imported_is_named(module, tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownEnv, match=f"the module '{module}' cannot be imported: "):
        make(f"{module}:Env-v0")


def test_register_a_class_with_arguments(echo):
    register(
        "t/Echo-v0", type(echo), kwargs={"split": "test"}, kind="toy", summary="An echo.", extras=("docker",)
    )
    assert make("t/Echo-v0").split == "test"
    assert make("t/Echo-v0", split="train").split == "train"
    (listing,) = [one for one in list_envs() if one.id == "t/Echo-v0"]
    assert listing == registry.EnvListing(
        "t/Echo-v0", "toy", "An echo.", ("train", "test"), 3, ("docker",), sizes=(2, 1)
    )


def test_register_as_decorator(echo):
    cls = type(echo)
    assert register("t/Echo-v0")(cls) is cls
    assert type(make("t/Echo-v0")) is cls


def _ours():
    """The listings of two built-in environments."""
    return [one for one in list_envs() if one.id in ("turngym/Calculator-v0", "turngym/GuessNumber-v0")]


def test_list_describes_from_the_class():
    calculator, guess = _ours()
    assert calculator.id == "turngym/Calculator-v0"
    assert calculator.summary == "Work out an expression with a calculator that does one operation per call."
    assert (calculator.kind, calculator.splits, calculator.max_turns) == ("tool use", ("train", "test"), 8)
    assert calculator.sizes == (None, 10_000)
    assert (guess.kind, guess.max_turns, guess.problem) == ("game", 5, None)


def test_list_survives_an_environment_that_cannot_be_made():
    register("t/Broken-v0", "no_such_module:Env", summary="Broken.")
    (broken,) = [one for one in list_envs() if one.id == "t/Broken-v0"]
    assert broken.summary == "Broken."
    assert broken.problem is not None
    assert "ModuleNotFoundError" in broken.problem


def test_an_environment_without_its_extra_is_listed_with_the_remedy():
    class Needy(Env):
        """Needs a library."""

        kind = "toy"

        def __init__(self, *, split=None):
            raise MissingExtra('needs nosuch: pip install "turngym[nosuch]"')

        def step(self, action):
            raise NotImplementedError

    register("t/Needy-v0", Needy, extras=("nosuch",))
    (needy,) = [one for one in list_envs() if one.id == "t/Needy-v0"]
    assert (needy.kind, needy.summary, needy.lacks_extra) == ("toy", "Needs a library.", True)
    assert needy.problem == 'needs nosuch: pip install "turngym[nosuch]"'


def test_list_survives_an_environment_that_cannot_be_described(echo):
    class Odd(type(echo)):
        def close(self):
            raise OSError("gone")

    register("t/Odd-v0", Odd)
    (odd,) = [one for one in list_envs() if one.id == "t/Odd-v0"]
    assert odd.problem == "could not be made: OSError: gone"


def test_plugins_load_on_the_first_unknown_id(plugins, monkeypatch, echo):
    module = types.ModuleType("some_plugin")
    module.enter = lambda: register("plugin/Echo-v0", type(echo))
    monkeypatch.setitem(sys.modules, "some_plugin", module)
    plugins(some="some_plugin:enter")
    make("turngym/Calculator-v0")
    assert "plugin/Echo-v0" not in gymnasium.registry
    assert make("plugin/Echo-v0").id == "plugin/Echo-v0"
    assert "plugin/Echo-v0" in [one.id for one in list_envs()]


def test_a_broken_plugin_is_named_and_skipped(plugins):
    plugins(bad="no_such_package", builtin="turngym.envs.builtin")
    with pytest.warns(UserWarning, match=r"bad = no_such_package.*ModuleNotFoundError"):
        assert len(_ours()) == 2
    assert len(_ours()) == 2  # and warned about once


def test_reference_policies(echo):
    rng = np.random.default_rng(0)
    register(
        "t/Echo-v0",
        type(echo),
        policies={"shout": lambda task, history, rng: Message(role="assistant", content="!")},
    )
    task = echo.tasks.get("train-0")
    assert reference_policy("t/Echo-v0", "expert")(task, (), rng).text == "red"
    assert reference_policy("t/Echo-v0", "shout")(task, (), rng).text == "!"
    assert reference_policy("t/Echo-v0", "null")(task, (), rng).text == ""
    assert reference_policy("t/Echo-v0", "random")(task, (), rng).role == "assistant"
    with pytest.raises(
        UnknownPolicy, match="no reference policy 'exprt'; it has expert, null, random, shout"
    ):
        reference_policy("t/Echo-v0", "exprt")
