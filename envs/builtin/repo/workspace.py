"""The agent's copy of the repository: files in memory, which programs see in a sandbox of their own for each run.

What the agent has done is nothing but files. So a copy of the environment copies a dictionary, no sandbox lives longer
than one program, and nothing of one run but its files is there in the next.
"""

from __future__ import annotations

import io
import posixpath
import re
import tarfile
from collections.abc import Mapping, Sequence
from typing import Final

from turngym.envs.interpreter import shortened
from turngym.sandboxes import ExecResult, Limits
from turngym.sandboxes.errors import FileError
from turngym.sandboxes.service import SandboxService

MOST_BYTES: Final = 4 << 20
"""Of all files together."""
_MOST_FILE: Final = 1 << 20
_MOST_FILES: Final = 2_000
_MOST_PATH: Final = 240
_SEARCH_HITS: Final = 50
_TIMED: Final = re.compile(r"^(Ran \d+ tests? in )[\d.]+s$", re.MULTILINE)
_LEFT_OUT: Final = re.compile(r"(^|/)__pycache__(/|$)")


class WorkspaceError(ValueError):
    """A path or an edit that cannot be; the message is for the agent."""


class Workspace:
    """Files by path, and the programs that work on them.

    Args:
        files: the text of each.
        limits: of each program.
    """

    def __init__(self, files: Mapping[str, str], limits: Limits) -> None:
        self.files: dict[str, bytes] = {path: text.encode() for path, text in files.items()}
        self._limits = limits

    def listed(self, path: str = ".") -> str:
        """The files below a folder, with their sizes in bytes."""
        folder = _normal(path)
        inside = [
            name for name in sorted(self.files) if folder in ("", name) or name.startswith(f"{folder}/")
        ]
        if not inside:
            raise WorkspaceError(f"there is no file or folder {path[:100]!r}")
        return "\n".join(f"{name} ({len(self.files[name])})" for name in inside)

    def shown(self, path: str, first_line: int = 1, last_line: int | None = None) -> str:
        """Lines of a text file, each with its number."""
        lines = self.text(path).split("\n")
        last = len(lines) if last_line is None else min(last_line, len(lines))
        if not 1 <= first_line <= max(last, 1):
            raise WorkspaceError(
                f"{path} has {len(lines)} lines; there is nothing from {first_line} to {last}"
            )
        return "\n".join(f"{number}: {lines[number - 1]}" for number in range(first_line, last + 1))

    def found(self, text: str, path: str = ".") -> str:
        """Where a text occurs: path, line number, line."""
        if not text:
            raise WorkspaceError("search for at least one character")
        folder, hits = _normal(path), []
        for name in sorted(self.files):
            if folder not in ("", name) and not name.startswith(f"{folder}/"):
                continue
            for number, line in enumerate(self.files[name].decode("utf-8", "replace").split("\n"), start=1):
                if text in line:
                    hits.append(f"{name}:{number}: {shortened(line.strip(), 200)}")
        more = [f"… and {len(hits) - _SEARCH_HITS} more"] if len(hits) > _SEARCH_HITS else []
        return "\n".join(hits[:_SEARCH_HITS] + more) or "nothing found"

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace the one place where a text occurs."""
        text = self.text(path)
        count = text.count(old) if old else 0
        if count != 1:
            raise WorkspaceError(
                f"the text to replace occurs {count} times in {path}, not once; give more of it"
            )
        self.write(path, text.replace(old, new))

    def write(self, path: str, text: str) -> None:
        """Write a whole file, new or not."""
        name = _normal(path)
        folders = {name[:place] for place, ch in enumerate(name) if ch == "/"}
        if not name or folders & self.files.keys() or any(one.startswith(f"{name}/") for one in self.files):
            raise WorkspaceError(f"{path[:100]!r} cannot be a file here")
        self._check({**self.files, name: text.encode("utf-8", "replace")})
        self.files[name] = text.encode("utf-8", "replace")

    def text(self, path: str) -> str:
        """A file as text."""
        name = _normal(path)
        if name not in self.files:
            raise WorkspaceError(f"there is no file {path[:100]!r}; list the files")
        try:
            return self.files[name].decode("utf-8")
        except UnicodeDecodeError:
            raise WorkspaceError(f"{path} is no text") from None

    async def run(self, service: SandboxService, argv: Sequence[str]) -> str:
        """Run a program in the repository's folder; what it leaves of files stays. Says how it ended and what it wrote.

        Raises:
            SandboxError: the sandbox failed, not the program.
        """
        if not argv or any("\0" in word for word in argv):
            raise WorkspaceError("give a program and its arguments")
        async with await service.create(self._limits) as sandbox:
            await sandbox.unpack(packed(self.files))
            words = [word.encode("utf-8", "replace").decode() for word in argv]
            result = await sandbox.exec(words, env={"PYTHONDONTWRITEBYTECODE": "1"})
            try:
                files = unpacked(await sandbox.pack(max_bytes=MOST_BYTES))
                self._check(files)
                self.files, note = files, ""
            except (FileError, WorkspaceError) as error:
                note = f"\nWhat it wrote to files was dropped: {error}"
        return told(result) + note

    @staticmethod
    def _check(files: Mapping[str, bytes]) -> None:
        if len(files) > _MOST_FILES or sum(map(len, files.values())) > MOST_BYTES:
            raise WorkspaceError(f"the repository may hold {_MOST_FILES} files and {MOST_BYTES >> 20} MiB")
        if max(map(len, files.values()), default=0) > _MOST_FILE:
            raise WorkspaceError("a file may hold 1 MiB")


def _normal(path: str) -> str:
    """A path within the repository, "" for its root.

    Raises:
        WorkspaceError: it leads out, or is no path.
    """
    name = posixpath.normpath(path.strip() or ".")
    text = name.encode("utf-8", "replace")
    if name.startswith(("/", "..")) or "\0" in name or len(text) > _MOST_PATH or text.decode() != name:
        raise WorkspaceError(f"paths are relative to the repository, not {path[:100]!r}")
    return "" if name == "." else name


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as a tar."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """The regular files of a tar that a sandbox made, without what Python caches."""
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for entry in archive:
            name = posixpath.normpath(entry.name)
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is not None and not _LEFT_OUT.search(name):
                files[name] = content.read()
    return files


def told(result: ExecResult) -> str:
    """How a program ended and what it wrote, without times that differ from run to run."""
    ended = {
        "exited": f"exit code {result.exit_code}",
        "signalled": f"ended by signal {result.signal}",
        "timeout": "stopped: it took too long",
        "oom": "stopped: out of memory",
        "output_limit": "stopped: it wrote too much",
    }[result.status]
    parts = [ended, shortened(result.stdout_text.strip()), shortened(result.stderr_text.strip())]
    return _TIMED.sub(r"\1…", "\n".join(part for part in parts if part))
