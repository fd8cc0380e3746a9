from __future__ import annotations

from typing import Any

import pytest

from turngym.sandboxes.errors import SandboxError, SandboxLost, SessionLost
from turngym.sandboxes.limits import DEFAULT_LIMITS
from turngym.sandboxes.server import messages
from turngym.sandboxes.server.messages import ERRORS, Create, error_values, raise_error, read_message
from turngym.sandboxes.server.wire import WireError, decode, encode


@pytest.mark.parametrize("kind", ERRORS.values(), ids=ERRORS)
def test_an_error_crosses_the_wire_as_what_it_is(kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        raise_error(decode(encode(error_values(kind("because")))))
    assert type(caught.value) is kind
    assert str(caught.value) == "because"


@pytest.mark.parametrize("kind", [SandboxLost, SessionLost])
def test_partial_output_crosses_with_it(kind: type[SandboxLost]) -> None:
    with pytest.raises(kind) as caught:
        raise_error(decode(encode(error_values(kind("because", stdout=b"\0\xff", stderr=b"e")))))
    assert (caught.value.stdout, caught.value.stderr) == (b"\0\xff", b"e")


def test_other_errors_are_the_sandbox_s_failure_and_tell_nothing() -> None:
    values = error_values(KeyError("/etc/secret"))
    assert values["error"] == "SandboxError"
    assert "secret" not in values["message"]


def test_a_subclass_crosses_as_the_nearest_that_has_a_name() -> None:
    assert error_values(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"))["error"] == "ValueError"


@pytest.mark.parametrize("name", ["KeyboardInterrupt", "SystemExit", "os.system", None, 3])
def test_nothing_else_is_made_of_an_answer(name: Any) -> None:
    with pytest.raises(SandboxError) as caught:
        raise_error({"error": name, "message": "x"})
    assert type(caught.value) is SandboxError


@pytest.mark.parametrize(
    "more",
    [
        {"binds": ["/etc"]},
        {"mounts": [{"source": "/"}]},
        {"root": "/"},
        {"privileged": True},
        {"limits": {**DEFAULT_LIMITS.model_dump(), "root": "/"}},
        {"limits": {**DEFAULT_LIMITS.model_dump(), "memory_mib": "/etc/passwd"}},
        {"limits": {**DEFAULT_LIMITS.model_dump(), "memory_mib": 1 << 40}},
    ],
)
def test_a_request_for_paths_mounts_or_privileges_cannot_be_said(more: dict[str, Any]) -> None:
    good = {"limits": DEFAULT_LIMITS.model_dump(), "lease_s": 5}
    assert read_message(Create, good).limits == DEFAULT_LIMITS
    with pytest.raises(WireError, match=next(iter(more))):
        read_message(Create, {**good, **more})


def test_no_message_has_a_field_for_the_server_s_machine() -> None:
    kinds = [kind for kind in vars(messages).values() if isinstance(kind, type)]
    fields = {name for kind in kinds if issubclass(kind, messages.Message) for name in kind.model_fields}
    assert fields == {
        *("limits", "lease_s", "image", "sandboxes", "dropped", "argv", "stdin", "cwd", "env", "reply_bytes"),
        *("path", "max_bytes", "data", "executable", "session", "code"),
    }


def test_a_refusal_does_not_repeat_what_was_sent() -> None:
    with pytest.raises(WireError) as caught:
        read_message(messages.Exec, {"argv": "tell-nobody", "stdin": b"tell-nobody", "env": 3, "cwd": "."})
    assert "tell-nobody" not in str(caught.value)
