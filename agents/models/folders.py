"""Write a folder so that it is there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Write into the temporary folder that this yields; at the end it takes the place of `target`.

    An exception leaves `target` as it was and removes what was written. An older `target` is moved aside
    before the new one takes its name, so a crash between the two steps leaves both, as `.NAME.old-…` and
    `.NAME.new-…`.

    Raises:
        OSError: the disk is full, or the place cannot be written.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
    try:
        fresh.chmod(0o777 & ~_umask())  # mkdtemp's folders are private; this one will be an ordinary folder
        yield fresh
        for path in (*fresh.rglob("*"), fresh):
            _sync(path)
        _take_place(fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _sync(target.parent)


def _take_place(fresh: Path, target: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old-", dir=target.parent))
    target.rename(old)  # a folder may take the name of an empty one
    try:
        fresh.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
