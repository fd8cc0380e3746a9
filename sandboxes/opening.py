"""Backends by name, as configurations and the command line write them."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from pydantic import ValidationError

from turngym.sandboxes.errors import Misuse, UnknownBackend, first_complaint
from turngym.sandboxes.protocols import Backend

DEFAULT: Final = "namespace"
"""What code that nobody has read runs in, unless a configuration says otherwise."""


def _namespace(_: str) -> Backend:
    from turngym.sandboxes.backends.namespace import NamespaceBackend

    return NamespaceBackend()


def _docker(image: str) -> Backend:
    from turngym.sandboxes.backends.docker import DockerBackend
    from turngym.sandboxes.docker.config import DockerConfig

    return DockerBackend(DockerConfig(image=image) if image else None)


def _one_shot(_: str) -> Backend:
    from turngym.sandboxes.backends.bubblewrap import BubblewrapBackend

    return BubblewrapBackend()


def _subprocess(_: str) -> Backend:
    from turngym.sandboxes.backends.process import ProcessBackend

    return ProcessBackend(unsafe=True)


def _remote(url: str) -> Backend:
    from turngym.sandboxes.backends.remote import RemoteBackend, RemoteConfig

    if not url:
        raise UnknownBackend("name the sandbox server: remote:http://127.0.0.1:8765")
    try:
        return RemoteBackend(RemoteConfig(url=url))
    except ValidationError as error:
        raise Misuse(f"remote:{url}: {first_complaint(error)}") from error


BACKENDS: Final[dict[str, tuple[str, Callable[[str], Backend]]]] = {
    "docker": ("containers of Docker or Podman: docker, or docker:IMAGE", _docker),
    "namespace": ("namespaces of the kernel, warm: a fork per program", _namespace),
    "one-shot": ("one bubblewrap per sandbox, nothing shared", _one_shot),
    "remote": ("those of another machine: remote:http://HOST:PORT", _remote),
    "subprocess": ("a plain child process: no isolation", _subprocess),
}
"""What there is: a line about it, and how it is made from what follows the colon in `name:argument`."""


def open_backend(spec: str = DEFAULT) -> Backend:
    """A backend by name.

    Args:
        spec: one of `BACKENDS`, with `:argument` where one is taken.

    Raises:
        UnknownBackend: there is no backend of that name.
        SandboxUnavailable: something that it needs is not installed.
    """
    name, _, argument = spec.partition(":")
    found = BACKENDS.get(name)
    if found is None:
        near = get_close_matches(name, BACKENDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise UnknownBackend(f"there is no sandbox backend {name!r}{hint} There are: {', '.join(BACKENDS)}")
    return found[1](argument)
