"""How much a program may use, and how the amounts go over a wire."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

MIB: Final = 1024 * 1024


class Limits(BaseModel):
    """The most that a sandbox, and each program in it, may use.

    The first group is fixed when a sandbox is made, since walls are built for it. The second holds for each
    program and may differ from call to call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_mib: int = Field(default=512, ge=16, le=1 << 20)
    """Memory of all programs together, files on the sandbox's own disk included."""
    processes: int = Field(default=64, ge=1, le=32768)
    """Processes and threads at once."""
    disk_mib: int = Field(default=64, ge=1, le=1 << 20)
    """All files that programs write."""
    inodes: int = Field(default=8192, ge=16, le=1 << 22)
    """How many files and folders they may make."""
    network: bool = False
    """Whether programs reach the host's network. Loopback within the sandbox needs no network."""

    wall_s: float = Field(default=10.0, gt=0, le=86400)
    """Time from the start of a program to its end."""
    cpu_s: float = Field(default=10.0, gt=0, le=86400)
    """Processor time of one process; rounded up to whole seconds."""
    file_mib: int = Field(default=64, ge=0, le=1 << 20)
    """The largest file."""
    open_files: int = Field(default=256, ge=16, le=65536)
    """Descriptors of one process."""
    stdout_bytes: int = Field(default=MIB, ge=0, le=256 * MIB)
    """A program that writes more to its standard output is stopped, with the status `output_limit`."""
    stderr_bytes: int = Field(default=MIB, ge=0, le=256 * MIB)
    """The same for its standard error."""

    def fits(self, made_with: Limits) -> bool:
        """True if a sandbox that was made with other limits can run a program with these."""
        fixed = {"memory_mib", "processes", "disk_mib", "inodes", "network"}
        return self.model_dump(include=fixed) == made_with.model_dump(include=fixed)


DEFAULT_LIMITS: Final = Limits()
"""What a call without limits gets."""
