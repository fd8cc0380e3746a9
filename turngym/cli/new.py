"""`turngym envs new`: a package with an environment that installs, is found, passes the check, and trains."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

from turngym.cli.blueprint import FILES, KINDS
from turngym.cli.console import Misuse

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Names:
    """How the parts of a package are called."""

    name: str
    """Name of the distribution and of its folder: `my-shop`."""
    module: str
    """Name of the module: `my_shop`."""
    cls: str
    """Name of the environment's class: `MyShop`."""
    id: str
    """Id of the environment: `my-shop/MyShop-v0`."""


def names_of(name: str) -> Names:
    """The names that follow from the one that was given.

    Raises:
        Misuse: it cannot name a Python package; says why, and what would do.
    """
    if not _NAME.fullmatch(name):
        better = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()
        better = better if better[:1].isalpha() else f"env-{better}".rstrip("-")
        raise Misuse(
            f"{name!r} names no package: letters, digits and single hyphens, a letter first; try {better!r}"
            + (" (and --dir for another place)" if "/" in name else "")
        )
    module = name.replace("-", "_").lower()
    taken = _taken(module)
    if taken is not None:
        raise Misuse(f"{name!r} cannot be used: {module} is {taken}; try '{name}-env'")
    cls = "".join(part[:1].upper() + part[1:] for part in re.split(r"[-_]", name))
    return Names(name, module, cls, f"{name}/{cls}-v0")


def write_package(name: str, kind: str, place: Path) -> tuple[Names, list[Path]]:
    """Write a package into a new folder of its name; the paths of its files, within `place`.

    Raises:
        Misuse: the name or the kind will not do, or there is something of that name already.
    """
    names = names_of(name)
    if kind not in KINDS:
        raise Misuse(f"there is no kind {kind!r}: write {' or '.join(KINDS)}")
    folder = place / name
    if folder.exists() or folder.is_symlink():
        raise Misuse(f"{folder} is there already, and nothing is overwritten: choose another name, or --dir")
    texts = FILES | {"$module/environment.py": KINDS[kind]}
    values = {"name": names.name, "module": names.module, "cls": names.cls, "id": names.id}
    written: list[Path] = []
    for path, text in sorted(texts.items()):
        target = folder / Template(path).substitute(values)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(Template(text).substitute(values))
        written.append(target)
    return names, written


def _taken(module: str) -> str | None:
    """What a module name means already; None if nothing."""
    if keyword.iskeyword(module):
        return "a word of Python's"
    if module in sys.stdlib_module_names:
        return "a module of Python's"
    if module in ("turngym", "tests") or importlib.util.find_spec(module) is not None:
        return "the name of a package that is here already"
    return None
