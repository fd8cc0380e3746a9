"""What is installed is what is in the tree: no forgotten sub-package, no bare top-level names, a wheel that works."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from setuptools import find_packages

ROOT = Path(__file__).resolve().parents[1]
MATERIAL = ROOT / "envs" / "builtin" / "repo" / "data"
"""Repositories for agents: shipped as files, not as packages."""
PARTS = ("sandboxes", "envs", "agents", "evaluation", "trainer")


def run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(a) for a in argv], cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the source distribution, as a package index would get it."""
    # Built from a copy: the build writes beside the sources, and test processes run at the same time.
    source, out = tmp_path_factory.mktemp("source") / "turngym", tmp_path_factory.mktemp("dist")
    skipped = shutil.ignore_patterns(".*", "build", "dist", "runs", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, source, symlinks=True, ignore=skipped)
    built = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source, cwd=out)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (path,) = out.glob("*.whl")
    return path


def test_the_linked_folders_are_the_ones_at_the_root():
    for part in PARTS:
        link = ROOT / "turngym" / part
        assert link.is_symlink()
        assert link.resolve() == ROOT / part


def test_declared_packages_are_those_of_the_tree():
    with_init = {
        "turngym." + path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for part in PARTS
        for path in (ROOT / part).rglob("__init__.py")
        if MATERIAL not in path.parents
    }
    with_code = {
        "turngym." + path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
        if MATERIAL not in path.parents
    }
    assert with_code == with_init, (
        "a folder with code but without __init__.py would be missing from the wheel"
    )
    found = {
        name
        for name in find_packages(str(ROOT), include=["turngym", "turngym.*"])
        if name.split(".")[1:2] != ["cli"] and not name.startswith("turngym.envs.builtin.repo.data.")
    }
    assert found == with_init | {"turngym"}


def test_every_package_declares_its_types():
    for part in (*PARTS, "turngym"):
        assert (ROOT / part / "py.typed").is_file()


@pytest.mark.parametrize("part", PARTS)
def test_bare_names_are_refused(part: str):
    done = run(sys.executable, "-c", f"import {part}", cwd=ROOT)
    assert done.returncode != 0
    assert f"import turngym.{part}, not {part}" in done.stderr


def test_the_wheel_holds_every_module_and_nothing_at_top_level(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"turngym"}
    expected = {
        "turngym/" + path.relative_to(ROOT).as_posix()
        for part in PARTS
        for path in (ROOT / part).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert expected <= set(names)


def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(
        subprocess.check_output(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        ).strip()
    )
    installed = run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        wheel,
        cwd=tmp_path,
    )
    assert installed.returncode == 0, installed.stderr
    # The dependencies come from the environment of this test run; its editable turngym does not, since .pth files in
    # a folder that is itself only named by a .pth file are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = run(python, "-c", "import turngym.envs; print(turngym.envs.__file__)", cwd=elsewhere)
    assert str(site) in where.stdout, where.stdout + where.stderr
    command = tmp_path / "venv" / "bin" / "turngym"
    helped = run(command, "--help", cwd=elsewhere)
    assert helped.returncode == 0
    assert "envs" in helped.stdout
    listed = run(command, "envs", "list", cwd=elsewhere)
    assert listed.returncode == 0, listed.stderr
    assert "turngym/Calculator-v0" in listed.stdout
