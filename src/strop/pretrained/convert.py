"""GGUF → safetensors, once, in a cache: $XDG_CACHE_HOME/strop/models, or ~/.cache/strop/models.

The folder is made under another name and renamed when it is whole, so that what exists is finished; it
carries the SHA-256 of each of its files (strop.json), checked at every opening. One process converts at a
time; others wait for it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strop.errors import DamagedFileError

FORMAT = 1
"""Raise it when what is written changes: older folders are then made anew."""


def cache_root() -> Path:
    """Return the folder of converted models."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "strop" / "models"


def convert(name: str, parts: Sequence[Path], origin: str, note: Callable[[str], None]) -> Path:
    """Return the folder of a converted model, making it from the parts of its GGUF file when it is not there."""
    target = cache_root() / f"{name}-{FORMAT}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target):
        if not target.exists():
            partial = target.with_name(f".{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            _write_model(parts, partial, note)
            _write_manifest(partial, origin)
            os.replace(partial, target)
    note(f"checking the converted {name}")
    return verify(target)


def verify(folder: Path) -> Path:
    """Return a converted folder whose files are those that were written, or raise."""
    remedy = f"Delete {folder}: it will be made again"
    try:
        manifest = json.loads((folder / "strop.json").read_text())["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{folder} must hold a whole strop.json, got none. {remedy}.") from error
    for name, digest in manifest.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise DamagedFileError(f"{folder / name} must be as it was written, got a damaged file. {remedy}.")
    return folder


def _write_model(parts: Sequence[Path], folder: Path, note: Callable[[str], None]) -> None:
    """Read the GGUF file with transformers and write what from_pretrained reads fastest."""
    import torch
    import transformers

    whole = parts[0] if len(parts) == 1 else join_parts(parts, folder / "whole.gguf")
    place: Any = {"pretrained_model_name_or_path": whole.parent, "gguf_file": whole.name, "local_files_only": True}
    with silence_transformers():
        note("reading the tokeniser")
        transformers.AutoTokenizer.from_pretrained(**place).save_pretrained(folder)
        note("reading and converting the weights")
        model = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
        vars(model)["hf_quantizer"] = None  # the weights are plain float32 now, and can be saved
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        note("writing safetensors")
        model.save_pretrained(folder)
    if whole.parent == folder:
        whole.unlink()


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Keep transformers' own bars and advice off the terminal: the command has its own."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    readers = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    bar = vars(readers).get("tqdm")  # GGUF reading has a bar that asks nobody
    vars(readers)["tqdm"] = lambda items, **_: items
    try:
        yield
    finally:
        vars(readers)["tqdm"] = bar
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def join_parts(parts: Sequence[Path], target: Path) -> Path:
    """Write the parts of a file one after the other into another; return it."""
    with open(target, "wb") as out:
        for part in parts:
            with open(part, "rb") as source:
                shutil.copyfileobj(source, out, 1 << 20)
    return target


def wants_bos(file: Path) -> bool:
    """Return whether a GGUF file's model wants every text to begin with its first token, as llama.cpp reads it."""
    from strop.pretrained.gguf_head import read_head

    try:
        keys = read_head(file).keys
    except (ValueError, KeyError, OverflowError, struct.error) as error:
        raise DamagedFileError(f"{file} must be a whole GGUF file, got: {error}. Copy it again.") from error
    said = keys.get("tokenizer.ggml.add_bos_token")
    return bool(said) if said is not None else keys.get("tokenizer.ggml.model") == "llama"


def _write_manifest(folder: Path, origin: str) -> None:
    digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    (folder / "strop.json").write_text(json.dumps({"format": FORMAT, "from": origin, "sha256": digests}, indent=1))


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    import fcntl

    with open(target.with_name(f".{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
