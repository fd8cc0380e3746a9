"""What a sandbox server is told: where it listens, whom it serves, and how much it gives away."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turngym.sandboxes.errors import Misuse
from turngym.sandboxes.limits import MIB, Limits

MIN_TOKEN: Final = 16
"""Characters of the shortest token."""

MOST: Final = Limits(
    memory_mib=4096,
    processes=512,
    disk_mib=1024,
    inodes=1 << 17,
    network=False,
    wall_s=3600,
    cpu_s=3600,
    file_mib=1024,
    open_files=1024,
    stdout_bytes=256 * MIB,
    stderr_bytes=256 * MIB,
)
"""The most that a client may ask for, unless the configuration says otherwise."""


class ServeConfig(BaseModel):
    """How sandboxes are lent to other machines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    """Address to listen on. Anything but loopback needs a token."""
    port: int = Field(default=8765, ge=0, le=65535)
    """0 takes a free one."""
    token_env: str = "TURNGYM_SANDBOX_TOKEN"
    """Environment variable that holds the bearer token; unused with `token_file`."""
    token_file: Path | None = None
    """File that holds the bearer token."""
    tls_certificate: Path | None = None
    """PEM file with the certificate chain; with it the server speaks HTTPS only."""
    tls_key: Path | None = None
    """PEM file with the certificate's key."""
    max_sandboxes: int = Field(default=64, ge=1, le=20000)
    """The most at once; a further one is answered with 429."""
    max_calls: int = Field(default=32, ge=1, le=20000)
    """The most calls that run at once, over all sandboxes."""
    queue_s: float = Field(default=2.0, ge=0, le=30)
    """How long a call waits for its turn before it is answered with 429."""
    max_lease_s: float = Field(default=600.0, ge=1)
    """The longest lease that a client may ask for."""
    most: Limits = MOST
    """Maxima of every limit. A request above one is refused, not cut: cut limits change what programs do."""
    max_body_mib: int = Field(default=128, ge=1, le=300)
    """The largest request. Up to `max_calls` of them are in memory at once."""
    max_file_mib: int = Field(default=256, ge=1, le=300)
    """The largest file, or folder, that is read or unpacked."""
    answers_mib: int = Field(default=1024, ge=0)
    """Answers that are kept for a client that asks again."""
    body_s: float = Field(default=60.0, gt=0)
    """How long a client may take to send a request's body."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("TLS needs both tls_certificate and tls_key")
        return self

    @property
    def loopback(self) -> bool:
        """True if only this machine reaches the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def token(self) -> str | None:
        """The bearer token, read now; None if clients need none.

        Raises:
            Misuse: there is none and one is needed, or it is too short, or its file cannot be read.
        """
        if self.token_file is not None:
            try:
                token = self.token_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise Misuse(f"the token file {self.token_file} cannot be read: {error.strerror}") from error
        else:
            token = os.environ.get(self.token_env, "").strip()
            if not token and self.loopback:
                return None
        if not token and self.token_file is None:
            raise Misuse(
                f"listening on {self.host} needs a token, since other machines reach it: "
                f"set {self.token_env}, or name a token file"
            )
        if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
            raise Misuse(f"the token needs at least {MIN_TOKEN} printable ASCII characters")
        return token
