"""Tars of a sandbox's folders, read and written in memory on the host; nothing is ever extracted to its disk."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from typing import Final

from turngym.sandboxes.errors import FileError, FileTooLarge
from turngym.sandboxes.inside.files import FOLDER_MODE

MAX_ENTRIES: Final = 10_000
"""Entries of one archive."""
MAX_RATIO: Final = 1000
"""How many times larger the content may be than the compressed archive."""

Entry = tuple[str, int, bytes]
"""Path below a folder, mode (`FOLDER_MODE` for a folder) and content."""


def make_tar(entries: Sequence[Entry]) -> bytes:
    """A tar of entries, without owners and times, so that equal folders give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, mode, data in entries:
            info = tarfile.TarInfo(path)
            info.mode = mode & 0o777
            if mode == FOLDER_MODE:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def read_tar(data: bytes, *, max_bytes: int) -> list[Entry]:
    """The folders and regular files of a tar, plain or compressed.

    Raises:
        FileError: it is no tar, or names something outside of the folder, a link or a device.
        FileTooLarge: its content is larger than `max_bytes`, than `MAX_RATIO` times the archive, or too many entries.
    """
    entries: list[Entry] = []
    room = min(max_bytes, MAX_RATIO * max(len(data), 1024))
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
            for member in archive:
                if len(entries) >= MAX_ENTRIES:
                    raise FileTooLarge(f"the archive has more than {MAX_ENTRIES} entries")
                info = tarfile.data_filter(member, "/nowhere")
                if info.isdir():
                    entries.append((info.name, FOLDER_MODE, b""))
                    continue
                file = archive.extractfile(info) if info.isreg() else None
                if file is None:
                    raise FileError(f"the archive holds {member.name!r}, which is no file and no folder")
                if info.size > room:
                    raise FileTooLarge(
                        f"the archive's content is larger than {max_bytes} bytes, or suspiciously dense"
                    )
                content = file.read(room + 1)
                room -= len(content)
                entries.append((info.name, 0o755 if (info.mode or 0) & 0o100 else 0o644, content))
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise FileError(f"the archive cannot be unpacked: {error}") from error
    return entries
