from __future__ import annotations

from pathlib import Path

import pytest

from turngym.agents.models.folders import whole_folder


def test_the_folder_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    with whole_folder(target) as fresh:
        (fresh / "inner").mkdir()
        (fresh / "inner" / "file").write_text("x")
        assert not target.exists()
    assert (target / "inner" / "file").read_text() == "x"
    assert [path.name for path in target.parent.iterdir()] == ["b"]
    assert target.stat().st_mode & 0o777 == target.parent.stat().st_mode & 0o777


def test_an_older_folder_is_replaced_whole(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with whole_folder(tmp_path / "t") as fresh:
            (fresh / name).touch()
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_older_folder_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    with whole_folder(tmp_path / "t") as fresh:
        (fresh / "old").touch()

    def fail() -> None:
        with whole_folder(tmp_path / "t") as fresh:
            (fresh / "new").touch()
            raise error

    with pytest.raises(type(error)):
        fail()
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_failing_exchange_puts_the_older_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with whole_folder(tmp_path / "t") as fresh:
        (fresh / "old").touch()
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if ".new-" in path.name:
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)

    def replace() -> None:
        with whole_folder(tmp_path / "t"):
            pass

    with pytest.raises(OSError, match="no"):
        replace()
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
