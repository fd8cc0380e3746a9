"""Where model-written code runs; imports nothing else of turngym.

open_backend("namespace")            makes sandboxes (see docs/sandboxes.md)
await backend.create(Limits(…))      one sandbox: exec, read_file, write_file, pack, unpack, session, close
SandboxPool(backend, size=8)         at most so many at once
"""

if not __name__.startswith("turngym."):
    raise ImportError(
        f"import turngym.{__name__}, not {__name__}: the bare name may belong to another distribution"
    )

from turngym.sandboxes import errors as errors
from turngym.sandboxes.capabilities import CAPABILITIES, UNTRUSTED, Capabilities, Capability
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.opening import open_backend
from turngym.sandboxes.pool import SandboxPool
from turngym.sandboxes.protocols import Backend, Sandbox, Session
from turngym.sandboxes.results import ExecResult, SessionResult
from turngym.sandboxes.sync import SyncSandbox

__all__ = [
    "CAPABILITIES",
    "UNTRUSTED",
    "Backend",
    "Capabilities",
    "Capability",
    "ExecResult",
    "Limits",
    "Sandbox",
    "SandboxPool",
    "Session",
    "SessionResult",
    "SyncSandbox",
    "errors",
    "open_backend",
]
