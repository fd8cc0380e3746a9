from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from turngym.sandboxes.server.config import ServeConfig

TOKEN = "0123456789abcdef0123"


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNGYM_SANDBOX_TOKEN", raising=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert ServeConfig(host=host).token() is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "sandboxes.example"])
def test_everything_else_needs_one(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="needs a token"):
        ServeConfig(host=host).token()
    monkeypatch.setenv("TURNGYM_SANDBOX_TOKEN", TOKEN)
    assert ServeConfig(host=host).token() == TOKEN


def test_a_token_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    assert ServeConfig(token_file=path).token() == TOKEN
    path.write_text("\n")
    with pytest.raises(ValueError, match="at least 16"):
        ServeConfig(token_file=path).token()
    with pytest.raises(ValueError, match="cannot be read"):
        ServeConfig(token_file=tmp_path / "none").token()


@pytest.mark.parametrize("token", ["short", "0123456789abcdéf0123", "0123456789ab\ncdef0123"])
def test_a_token_that_is_no_good(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGYM_SANDBOX_TOKEN", token)
    with pytest.raises(ValueError, match="printable") as caught:
        ServeConfig().token()
    assert token not in str(caught.value)


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(ValidationError, match="both"):
        ServeConfig(tls_certificate=Path("certificate.pem"))
