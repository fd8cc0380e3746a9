"""How the docker backend finds its engine and builds its containers."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

IMAGE: Final = "turngym-sandbox"
"""Image of sandboxes unless another is named."""


class DockerConfig(BaseModel):
    """Settings of the docker backend."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = IMAGE
    """Any image with a Python from 3.10 on. It is never pulled."""
    python: str = "python3"
    """The interpreter within it."""
    engine: str | None = None
    """Address of the engine, such as `unix:///run/user/1000/podman/podman.sock`; default: as the docker command."""
    runtime: str | None = None
    """Runtime of the containers, such as `runsc` (gVisor: a kernel of their own); default: the engine's."""
    network: str = "bridge"
    """The engine's network that sandboxes join whose limits allow one."""
    cpus: float | None = Field(default=None, gt=0)
    """Processors that one sandbox may use at once; default: all."""
    preload: tuple[str, ...] = ()
    """Modules of the image that are imported before programs start, such as numpy."""
    warm: bool = True
    """Whether a Python program is a fork of a ready interpreter; it then shares its hash seed with others."""
    run_id: str = Field(default="", pattern=r"^[A-Za-z0-9_.-]{0,64}$")
    """Written on every container, so that those of one run can be found; default: drawn."""
    max_sandboxes: int = Field(default=256, ge=1, le=20000)
    """The most at once on this machine, over all processes with the same `uid_base`."""
    uid_base: int | None = Field(default=None, ge=1000, le=2_000_000_000)
    """First of the user ids that programs get, one for each sandbox; default: what the engine's user mapping allows."""
    timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """How long the engine may take for one answer, and a container for its start."""
