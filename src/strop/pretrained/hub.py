"""Ask the hub about a model once, before transformers asks for each file and waits again and again."""

from __future__ import annotations

import importlib
from pathlib import Path

from strop._checks import nearest_path
from strop.errors import SourceError

PATIENCE = 10.0
"""Seconds to wait for the hub."""


def is_cached_only(name: str) -> bool:
    """Return whether a model must be read from the hub's cache; raise where it is neither there nor on the hub."""
    hub = importlib.import_module("huggingface_hub")
    cached = isinstance(hub.try_to_load_from_cache(name, "config.json"), str)
    if hub.constants.HF_HUB_OFFLINE:
        _refuse_unless(cached, name, "HF_HUB_OFFLINE is set and the hub's cache does not hold it")
        return True
    try:
        hub.HfApi().model_info(name, timeout=PATIENCE)
    except (hub.errors.RepositoryNotFoundError, hub.errors.HFValidationError) as error:
        raise SourceError(_missing(name, f"{hub.constants.ENDPOINT} has none of that name, or not for you")) from error
    except hub.errors.HfHubHTTPError as error:
        raise SourceError(_missing(name, f"{hub.constants.ENDPOINT} said: {error}")) from error
    except Exception as error:  # whatever the network, a proxy or a certificate may be wrong with
        reason = f"{hub.constants.ENDPOINT} cannot be reached: {error or type(error).__name__}"
        _refuse_unless(cached, name, reason, error)
        return True
    return False


def _refuse_unless(cached: bool, name: str, reason: str, error: Exception | None = None) -> None:
    if not cached:
        raise SourceError(_missing(name, reason)) from error


def _missing(name: str, reason: str) -> str:
    return (
        f"model must be a folder here or a model on the hub, got {name!r}: there is no such folder, and {reason}. "
        f"{nearest_path(Path(name))} Behind a proxy set HTTPS_PROXY; offline give a folder or a packaged model such as "
        "smollm2."
    )
