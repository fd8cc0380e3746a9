"""A new package installs, is found by its entry point, keeps the laws, and trains with the demo's recipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngym.cli.blueprint import KINDS
from turngym.cli.console import Misuse
from turngym.cli.new import names_of, write_package
from turngym.trainer.config import load_config

from .authors import ROOT, SHORT, Installed
from .conftest import Ask

RECIPE = ROOT / "examples" / "calculator_grpo.toml"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """One package of each kind, written by the command and installed without any network."""
    place = Installed.into(tmp_path_factory.mktemp("authors"))
    for kind in KINDS:
        written = place.turngym("envs", "new", f"my-{kind}", "--kind", kind)
        assert written.returncode == 0, written.stderr
        place.install(f"my-{kind}")
    return place


IDS = {"tool": "my-tool/MyTool-v0", "text": "my-text/MyText-v0"}


def test_the_kinds_are_known():
    assert set(IDS) == set(KINDS)


def test_it_is_found_by_its_entry_point(installed: Installed):
    listed = installed.turngym("envs", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    kinds = {one["id"]: one["kind"] for one in json.loads(listed.stdout)}
    assert {kinds[id] for id in IDS.values()} == {"tool use", "text"}


@pytest.mark.parametrize("kind", KINDS)
def test_it_passes_the_check_and_its_own_tests(installed: Installed, kind: str):
    checked = installed.turngym("envs", "check", IDS[kind], "--tasks", "6", "--episodes", "30")
    assert checked.returncode == 0, checked.stdout
    tested = installed.run("-m", "pytest", "-q", "-p", "no:cacheprovider", installed.folder / f"my-{kind}")
    assert tested.returncode == 0, tested.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_with_the_demos_recipe_as_it_is(installed: Installed, kind: str):
    out = installed.folder / f"run-{kind}"
    trained = installed.turngym("train", RECIPE, "--set", f"env.id={IDS[kind]}", *SHORT, "--out", out)
    assert trained.returncode == 0, trained.stderr
    assert (out / "final" / "config.json").is_file()


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_recipe_is_the_demos(tmp_path: Path, kind: str):
    write_package("my-own", kind, tmp_path)
    own = load_config(tmp_path / "my-own" / "train.toml")
    assert own == load_config(RECIPE, ["env.id=my-own/MyOwn-v0"])


def test_a_complete_environment_is_short():
    assert len(KINDS["tool"].partition("class $cls")[2].splitlines()) <= 25


def test_what_is_said(ask: Ask, tmp_path: Path):
    done = ask("envs", "new", "my-shop", "--dir", str(tmp_path))
    assert done.code == 0
    assert f"  {tmp_path / 'my-shop' / 'my_shop' / 'environment.py'}\n" in done.out
    assert f"  pip install -e {tmp_path / 'my-shop'}\n  turngym envs check my-shop/MyShop-v0\n" in done.out


def test_nothing_is_overwritten(ask: Ask, tmp_path: Path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    for name in ("there", "file", "broken"):
        done = ask("envs", "new", name, "--dir", str(tmp_path))
        assert done.code == 2
        assert "is there already, and nothing is overwritten" in done.err
    assert {path.name for path in tmp_path.rglob("*")} == {"there", "mine.txt", "file", "broken"}
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my shop", "try 'my-shop'"),
        ("2048", "try 'env-2048'"),
        ("-shop", "try 'shop'"),
        ("shop-", "try 'shop'"),
        ("a--b", "try 'a-b'"),
        ("a/b", "try 'a-b' (and --dir for another place)"),
        ("../up", "try 'up' (and --dir"),
        ("", "try 'env'"),
        ("größe", "try 'gr-e'"),
        ("class", "class is a word of Python's; try 'class-env'"),
        ("json", "json is a module of Python's"),
        ("pydantic", "pydantic is the name of a package that is here already; try 'pydantic-env'"),
        ("turngym", "turngym is the name of a package"),
        ("tests", "tests is the name of a package"),
    ],
)
def test_bad_names_are_told_what_would_do(name: str, words: str):
    with pytest.raises(Misuse) as caught:
        names_of(name)
    assert words in str(caught.value)


def test_names():
    names = names_of("my-2nd_shop")
    assert (names.module, names.cls, names.id) == ("my_2nd_shop", "My2ndShop", "my-2nd_shop/My2ndShop-v0")


def test_an_unknown_kind_is_told(ask: Ask, tmp_path: Path):
    done = ask("envs", "new", "shop", "--kind", "game", "--dir", str(tmp_path))
    assert done.code == 2
    assert "there is no kind 'game': write tool or text" in done.err
    assert not list(tmp_path.iterdir())
