"""Reads and writes files of the sandbox's home without ever following a link.

A path is walked one name at a time with directory descriptors and O_NOFOLLOW, so that a link that is swapped in
between check and use leads nowhere. Only regular files with one name are read; a file is written beside its
place and moved there, so that a link, FIFO or socket of that name is replaced and never opened.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAMES = 64
"""Names in one path."""
MAX_PATH = 1024
"""Characters of one path."""
MAX_ENTRIES = 10000
"""Files and folders of one listing."""
FOLDER_MODE = 0o40755
"""What stands for a folder where a file has its mode."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """The path is not one that this interface serves."""


class TooLarge(Exception):
    """More bytes, or more entries, than were asked for."""


def read_file(home: str, path: str, max_bytes: int) -> bytes:
    """Bytes of one regular file."""
    names = split(home, path)
    if not names:
        raise Refused("it is a folder")
    folder = _open_folder(home, names[:-1])
    try:
        return _read(folder, names[-1], max_bytes)
    finally:
        os.close(folder)


def write_files(
    home: str, base: str, entries: Iterable[tuple[str, int, bytes | None]], uid: int, gid: int
) -> None:
    """Write entries (path, mode, bytes; None for a folder), each whole, owned by the program's user."""
    for path, mode, data in entries:
        names = split(home, base) + split("" if base else home, path)
        if data is None:
            os.close(_open_folder(home, names, make=(uid, gid)))
            continue
        if not names:
            raise Refused("it is a folder")
        folder = _open_folder(home, names[:-1], make=(uid, gid))
        try:
            _write(folder, names[-1], data, mode, uid, gid)
        finally:
            os.close(folder)


def list_files(home: str, path: str, max_bytes: int) -> list[tuple[str, int, bytes | None]]:
    """Every folder and regular file below a folder as (path, mode, bytes or None), links and other nodes left out."""
    entries: list[tuple[str, int, bytes | None]] = []
    top = _open_folder(home, split(home, path))
    stack = [("", top)]
    room = max_bytes
    try:
        while stack:
            prefix, folder = stack.pop()
            try:
                for name in sorted(os.listdir(folder)):
                    where = prefix + name
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if len(entries) >= MAX_ENTRIES:
                        raise TooLarge(f"more than {MAX_ENTRIES} entries")
                    if stat.S_ISDIR(info.st_mode):
                        if where.count("/") >= MAX_NAMES:
                            raise TooLarge(f"folders nest deeper than {MAX_NAMES}")
                        entries.append((where, 0o755, None))
                        stack.append((where + "/", os.open(name, _DIRECTORY, dir_fd=folder)))
                    elif stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
                        data = _read(folder, name, room)
                        room -= len(data)
                        entries.append((where, 0o755 if info.st_mode & 0o100 else 0o644, data))
            finally:
                os.close(folder)
    finally:
        for _, folder in stack:
            os.close(folder)
    return entries


def split(home: str, path: str) -> list[str]:
    """Names of a path below the home.

    Raises:
        Refused: it leaves the home, is too long, or holds a zero byte.
    """
    if len(path) > MAX_PATH or "\0" in path:
        raise Refused(f"the path is longer than {MAX_PATH} characters, or holds a zero byte")
    if path.startswith("/"):
        if not home or not (path + "/").startswith(home.rstrip("/") + "/"):
            raise Refused("the path lies outside the sandbox's home")
        path = path[len(home.rstrip("/")) :]
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise Refused("the path goes up ('..')")
    if len(names) > MAX_NAMES:
        raise Refused(f"the path has more than {MAX_NAMES} names")
    return names


def _open_folder(home: str, names: list[str], make: tuple[int, int] | None = None) -> int:
    """Descriptor of the folder under the home; made on the way, owned by `make` = (uid, gid), if that is given."""
    folder = os.open(home, _DIRECTORY)
    for name in names:
        try:
            try:
                below = os.open(name, _DIRECTORY, dir_fd=folder)
            except FileNotFoundError:
                if make is None:
                    raise
                os.mkdir(name, 0o755, dir_fd=folder)
                below = os.open(name, _DIRECTORY, dir_fd=folder)
                os.fchown(below, *make)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Refused(f"{name!r} on the way is a link or no folder") from None
            raise
        finally:
            os.close(folder)
        folder = below
    return folder


def _read(folder: int, name: str, max_bytes: int) -> bytes:
    before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(before.st_mode):
        raise Refused("it is no regular file")
    try:
        fd = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder
        )
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused("it is a link") from None
        raise
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise Refused("it is no regular file")
        if info.st_nlink > 1:
            raise Refused("it has a second name (a hard link), maybe of a file that is not the program's")
        if info.st_size > max_bytes:
            raise TooLarge(f"{info.st_size} bytes")
        parts = []
        room = max_bytes + 1
        while room > 0:
            part = os.read(fd, min(room, 1 << 20))
            if not part:
                break
            parts.append(part)
            room -= len(part)
        if room <= 0:
            raise TooLarge("it grows")
        return b"".join(parts)
    finally:
        os.close(fd)


def _write(folder: int, name: str, data: bytes, mode: int, uid: int, gid: int) -> None:
    draft = f".turngym-{os.getpid()}-{os.urandom(6).hex()}"
    fd = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
    )
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view[: 1 << 20]) :]
            os.fchown(fd, uid, gid)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        try:
            os.unlink(draft, dir_fd=folder)
        except OSError:
            pass  # it was moved, or somebody took it away
        raise
