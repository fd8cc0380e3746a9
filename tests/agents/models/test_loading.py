from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from turngym.agents.errors import ModelNotFound
from turngym.agents.models import BUILT_IN, LoadedModel, load_model, save_checkpoint
from turngym.agents.models.quiet import quiet_transformers

CONVERSATION = [{"role": "user", "content": "Compute 12 + 7"}, {"role": "assistant", "content": None}]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("nothing may touch the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_checkpoint_is_an_ordinary_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = load_model("tiny", seed=5)
    save_checkpoint(loaded, tmp_path / "checkpoint")
    again = load_model(tmp_path / "checkpoint")
    assert capfd.readouterr() == ("", "")
    names = {path.name for path in (tmp_path / "checkpoint").iterdir()}
    assert names >= {
        "config.json",
        "model.safetensors",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    }
    with quiet_transformers():
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint").eval()
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "checkpoint")
    ids = tokenizer.apply_chat_template(CONVERSATION, return_tensors="pt", return_dict=False)
    assert ids.tolist() == [loaded.tokenizer.apply_chat_template(CONVERSATION, return_dict=False)]
    assert ids.tolist() == [again.tokenizer.apply_chat_template(CONVERSATION, return_dict=False)]
    assert tokenizer.decode(ids[0]) == loaded.tokenizer.apply_chat_template(CONVERSATION, tokenize=False)
    with torch.no_grad():
        want = loaded.model(ids).logits
        assert torch.equal(model(ids).logits, want)
        assert torch.equal(again.model(ids).logits, want)
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 2)
    assert model.generation_config.eos_token_id == [2]
    assert model.generation_config.pad_token_id == 0
    assert again.name == str(tmp_path / "checkpoint")
    assert not again.model.training


def test_a_checkpoint_of_a_checkpoint_is_the_same(tmp_path: Path) -> None:
    save_checkpoint(load_model("tiny"), tmp_path / "a")
    save_checkpoint(load_model(tmp_path / "a"), tmp_path / "b")
    save_checkpoint(load_model(tmp_path / "a"), tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes(), path.name


def test_every_end_token_is_in_the_generation_config(tmp_path: Path) -> None:
    tiny = load_model("tiny")
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        eos_token_id=0,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.generation_config.temperature = 0.6
    model.generation_config.do_sample = True
    save_checkpoint(LoadedModel(model, tiny.tokenizer, "x"), tmp_path / "c")
    saved = json.loads((tmp_path / "c" / "generation_config.json").read_text())
    assert saved["eos_token_id"] == [0, 2]
    assert saved["pad_token_id"] == 0
    assert saved["temperature"] == 0.6
    assert model.generation_config.eos_token_id == 0, "the model in use is left alone"


def test_a_full_disk_leaves_the_older_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_model("tiny", seed=1)
    save_checkpoint(loaded, tmp_path / "c")
    before = (tmp_path / "c" / "model.safetensors").read_bytes()

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    other = load_model("tiny", seed=2)
    monkeypatch.setattr(type(other.tokenizer), "save_pretrained", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(other, tmp_path / "c")
    assert (tmp_path / "c" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize(
    ("rename", "example"),
    [
        (lambda name: None if "layers.1." in name else name, "layers.1."),
        (lambda name: f"base_model.{name}", "model.embed_tokens.weight"),
    ],
)
def test_weights_that_are_missing_are_not_made_up(tmp_path: Path, rename: Any, example: str) -> None:
    save_checkpoint(load_model("tiny"), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    renamed = {new: value for name, value in weights.items() if (new := rename(name)) is not None}
    save_file(renamed, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelNotFound, match="tensors are missing") as caught:
        load_model(tmp_path)
    assert example in str(caught.value)


@pytest.mark.parametrize("broken", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_folder_that_is_not_whole_is_named(tmp_path: Path, broken: str) -> None:
    save_checkpoint(load_model("tiny"), tmp_path)
    (tmp_path / broken).write_bytes((tmp_path / broken).read_bytes()[:100])
    with pytest.raises(ModelNotFound, match=r"cannot be loaded .*is it whole"):
        load_model(tmp_path)


def test_code_that_comes_with_a_folder_is_not_run(tmp_path: Path) -> None:
    save_checkpoint(load_model("tiny"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ModelNotFound, match="cannot be loaded"):
        load_model(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("make", [None, "folder", "file"])
def test_a_missing_model_says_what_was_looked_for(tmp_path: Path, make: str | None) -> None:
    if make == "folder":
        (tmp_path / "model").mkdir()
    elif make == "file":
        (tmp_path / "model").touch()
    with pytest.raises(ModelNotFound) as caught:
        load_model(str(tmp_path / "model"))
    assert str(tmp_path / "model") in str(caught.value)
    assert all(name in str(caught.value) for name in BUILT_IN)


def test_dtype_and_device() -> None:
    assert load_model("tiny").model.dtype == torch.float32
    assert load_model("tiny", dtype="bfloat16").model.dtype == torch.bfloat16
    assert load_model("tiny", dtype=torch.float64, device="cpu").model.dtype == torch.float64
    for wrong in ("float33", "int64", "nn"):
        with pytest.raises(ValueError, match="bfloat16"):
            load_model("tiny", dtype=wrong)


def test_a_stored_dtype_is_kept(tmp_path: Path) -> None:
    save_checkpoint(load_model("tiny", dtype="bfloat16"), tmp_path / "c")
    assert load_model(tmp_path / "c").model.dtype == torch.bfloat16
    assert load_model(tmp_path / "c", dtype="float32").model.dtype == torch.float32


def test_the_library_talks_again_afterwards() -> None:
    logging.enable_progress_bar()
    logging.set_verbosity_info()
    try:
        load_model("tiny")
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity_warning()
