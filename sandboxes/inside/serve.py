"""The supervisor's loop: one request, one answer, until the host closes the channel."""

from __future__ import annotations

from turngym.sandboxes.inside.command import HostGone, run_command
from turngym.sandboxes.inside.files import (
    FOLDER_MODE,
    Refused,
    TooLarge,
    list_files,
    read_file,
    write_files,
)
from turngym.sandboxes.inside.session import Session
from turngym.sandboxes.inside.walls import Wall
from turngym.sandboxes.inside.wire import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Supervisor:
    """Serves one sandbox."""

    def __init__(self, channel: Channel, wall: Wall, *, warm: bool) -> None:
        self.channel = channel
        self.wall = wall
        self.warm = warm
        self.session: Session | None = None

    def serve(self) -> None:
        """Answer requests until `close` or the end of file.

        Raises:
            BecomeProgram: in a child that is to be a Python program.
        """
        verbs = {
            "ping": lambda _: {},
            "exec": self._exec,
            "read": self._read,
            "write": self._write,
            "list": self._list,
            "session_open": self._session_open,
            "session_run": self._session_run,
            "session_close": self._session_close,
        }
        try:
            while True:
                request = self.channel.receive()
                if request is None:
                    return
                verb = request["verb"].decode()
                if verb == "close":
                    return
                try:
                    answer = verbs[verb](request)
                except Refused as error:
                    answer = {"error": "refused", "message": str(error)}
                except TooLarge as error:
                    answer = {"error": "too large", "message": str(error)}
                except OSError as error:
                    answer = {
                        "error": "os",
                        "errno": error.errno or 0,
                        "message": error.strerror or str(error),
                    }
                self.channel.send(answer)
        except (HostGone, BrokenPipeError, ConnectionResetError):
            return

    def close(self) -> None:
        """End what is left of the sandbox's programs."""
        if self.session is not None:
            self.session.close()

    def _exec(self, request: dict[str, Any]) -> dict[str, Any]:
        return run_command(
            request,
            self.wall,
            self.channel.in_fd,
            warm=self.warm,
            keep=self.session.tree.pid if self.session is not None and self.session.alive else 0,
        )

    def _read(self, request: dict[str, Any]) -> dict[str, Any]:
        path = request["path"].decode("utf-8", "surrogateescape")
        with self.wall.as_user():
            return {"data": read_file(self.wall.home, path, request["max_bytes"])}

    def _write(self, request: dict[str, Any]) -> dict[str, Any]:
        entries = [
            (path.decode("utf-8", "surrogateescape"), mode & 0o777, None if mode == FOLDER_MODE else data)
            for path, mode, data in request["entries"]
        ]
        base = request["base"].decode("utf-8", "surrogateescape")
        with self.wall.as_user():
            write_files(self.wall.home, base, entries, self.wall.uid, self.wall.gid)
        return {}

    def _list(self, request: dict[str, Any]) -> dict[str, Any]:
        path = request["path"].decode("utf-8", "surrogateescape")
        with self.wall.as_user():
            found = list_files(self.wall.home, path, request["max_bytes"])
        return {
            "entries": [
                [name, FOLDER_MODE if data is None else mode, b"" if data is None else data]
                for name, mode, data in found
            ]
        }

    def _session_open(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.session is not None:
            self.session.close()
        self.session = Session(request, self.wall, self.channel.in_fd)
        return {}

    def _session_run(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.session is None or self.session.closed:
            return {"status": "lost", "stdout": b"", "stderr": b"", "wall_us": 0}
        return self.session.run(request)

    def _session_close(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        if self.session is not None:
            self.session.close()
            self.session = None
        return {}
