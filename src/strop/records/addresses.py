"""The content address of a config: sha256 of its canonical JSON. Equal configs, equal addresses.

Canonical: keys sorted, no spaces, tuples as lists, a dataclass as its fields plus "class": its name (`class`
can be no field's name). So 1 and 1.0 differ; a default spelt out changes nothing; a new field changes it, unless its
metadata is LATER: then it is left out as long as it has its default, and what was made before it keeps its address.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping

from strop.errors import RecordsError

LATER = {"later": True}
"""Metadata of a field that came after configs had been made without it."""


def canonical(config: object) -> str:
    """Return the config as canonical JSON."""
    return json.dumps(_plain(config, "config"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def address(config: object) -> str:
    """Return the whole content address: 64 hexadecimal digits."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()


def short_id(config: object) -> str:
    """Return the first 12 digits of the address, for folder names and tables."""
    return address(config)[:12]


def _plain(value: object, place: str) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: getattr(value, field.name) for field in dataclasses.fields(value) if _counts(field, value)
        }
        return {"class": type(value).__name__, **{k: _plain(v, f"{place}.{k}") for k, v in fields.items()}}
    if isinstance(value, Mapping):
        return {_key(key, place): _plain(item, f"{place}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{place}[{i}]") for i, item in enumerate(value)]
    if value is None or isinstance(value, str | int | bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise RecordsError(
        f"{place} must be a dataclass, dict, list, tuple, str, int, finite float, bool or None, "
        f"got {value!r}. Store a plain value that rebuilds it."
    )


def _counts(field: dataclasses.Field[object], value: object) -> bool:
    return "later" not in field.metadata or getattr(value, field.name) != field.default


def _key(key: object, place: str) -> str:
    if isinstance(key, str):
        return key
    raise RecordsError(f"the keys of {place} must be strings, got {key!r}. JSON has no others.")
