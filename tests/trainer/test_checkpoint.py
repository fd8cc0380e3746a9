from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from turngym.trainer import checkpoint
from turngym.trainer.errors import CheckpointError


def _model(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"weights")


def _save(folder: Path, step: int, keep: int = 2) -> Path:
    return checkpoint.save(
        folder, step, {"step": step, "moments": torch.full((3,), float(step))}, _model, keep=keep
    )


def test_what_is_saved_is_loaded_and_the_last_few_are_kept(tmp_path):
    for step in (1, 2, 10):
        _save(tmp_path, step)
    assert [step for step, _ in checkpoint.checkpoints(tmp_path)] == [2, 10]
    last = checkpoint.latest(tmp_path)
    assert last == tmp_path / "step-000010"
    assert (last / "model.safetensors").read_bytes() == b"weights"
    state = checkpoint.load_state(last)
    assert state["step"] == 10
    assert torch.equal(state["moments"], torch.full((3,), 10.0))


def test_no_checkpoint_yet(tmp_path):
    assert checkpoint.latest(tmp_path / "nowhere") is None


def test_an_unfinished_checkpoint_is_not_one(tmp_path):
    _save(tmp_path, 1)

    def dies(path: Path) -> None:
        _model(path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, 2, {}, dies, keep=2)
    assert checkpoint.latest(tmp_path) == tmp_path / "step-000001"
    assert len(list(tmp_path.iterdir())) == 2
    checkpoint.clean(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "step-000001"]


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path):
    _save(tmp_path, 1, keep=1)

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CheckpointError, match=r"No space left.*free some space.*--resume"):
        checkpoint.save(tmp_path, 2, {}, full, keep=1)
    assert list(tmp_path.iterdir()) == [tmp_path / "step-000001"]


def test_a_really_full_disk(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    def full(path: Path) -> None:
        (path / "model.safetensors").symlink_to("/dev/full")
        with (path / "model.safetensors").open("wb", buffering=0) as file:
            file.write(b"weights")

    with pytest.raises(CheckpointError, match="No space left"):
        checkpoint.save(tmp_path, 1, {}, full, keep=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(b"not a checkpoint"), ""),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), ""),
        (lambda path: path.write_bytes(b""), ""),
        (lambda path: path.unlink(), "FileNotFoundError"),
        (lambda path: torch.save([1, 2], path), "trainer.pt is no state of a trainer, but a list"),
        (lambda path: torch.save({"moments": torch.zeros(1)}, path), "trainer.pt has no step"),
        (
            lambda path: torch.save({"step": 2, "moments": [torch.tensor([math.nan])]}, path),
            "moments.0 in trainer.pt has entries that are not finite",
        ),
    ],
    ids=["other", "truncated", "empty", "missing", "list", "key", "nan"],
)
def test_a_damaged_state_is_a_clear_error(tmp_path, damage, words):
    first, second = _save(tmp_path, 1), _save(tmp_path, 2)
    damage(second / checkpoint.STATE_FILE)
    with pytest.raises(CheckpointError, match=f"cannot resume from {second}.*{words}") as caught:
        checkpoint.load_state(second, ["step", "moments"])
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith("Delete that folder to resume from the one before it, step-000001")
    damage(first / checkpoint.STATE_FILE)
    with pytest.raises(CheckpointError, match="There is none before it: put it back whole, or begin again"):
        checkpoint.load_state(first, ["step", "moments"])


def test_a_full_memory_says_nothing_about_the_checkpoint(tmp_path):
    with pytest.raises(MemoryError), checkpoint.usable(_save(tmp_path, 1)):
        raise MemoryError


def test_whatever_fails_while_writing_leaves_nothing_behind(tmp_path):
    class SafetensorError(Exception):
        pass

    def full(path):
        (path / "half").touch()
        raise SafetensorError("I/O error: No space left on device")

    with pytest.raises(CheckpointError, match=r"No space left on device.*free some space"):
        checkpoint.write_folder(tmp_path / "final", full)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    place = _save(tmp_path, 1)
    unfinished = tmp_path / ".unfinished-step-000002"
    for leftover in (unfinished, tmp_path / f".{unfinished.name}.new-k3j4h5"):
        leftover.mkdir()
        (leftover / "model.safetensors").touch()
    checkpoint.clean(tmp_path)
    assert list(tmp_path.iterdir()) == [place]


def test_a_folder_is_replaced_whole(tmp_path):
    place = tmp_path / "final"
    checkpoint.write_folder(place, lambda path: (path / "old").touch())
    checkpoint.write_folder(place, lambda path: (path / "new").touch())
    assert [path.name for path in place.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [place]


_WRITER = """
import sys
from pathlib import Path
import torch
from turngym.trainer import checkpoint

folder = Path(sys.argv[1])
def model(path):
    for name in range(3):
        (path / f"part-{name}").write_bytes(b"x" * 200_000)
step = 0
while True:
    step += 1
    state = {"step": step, "moments": torch.full((50_000,), float(step))}
    checkpoint.save(folder, step, state, model, keep=2)
    print(step, flush=True)
"""


def test_law_13_kill_at_any_moment_leaves_the_last_complete_checkpoint(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        reported = 3
        time.sleep(0.0137)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate()
    reported = max([reported, *map(int, rest.split())])
    checkpoint.clean(tmp_path)
    last = checkpoint.latest(tmp_path)
    assert last is not None
    state = checkpoint.load_state(last)
    assert state["step"] >= reported
    assert torch.equal(state["moments"], torch.full((50_000,), float(state["step"])))
    assert {path.stat().st_size for path in last.glob("part-*")} == {200_000}
    assert all(path.name.startswith("step-") for path in tmp_path.iterdir())
