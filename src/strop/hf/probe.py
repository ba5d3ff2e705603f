"""`probe`: run a model on texts of growing length and measure every head.

A forward pass for each length gives one record for each layer and head (measure.py says what is in it);
summary.py turns them into slopes, horizons and classes. Records of finished lengths are kept in the run's
folder, so an interrupted probe goes on where it stopped; the folder's name is the address of the settings,
the text's checksum included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from strop import records
from strop._checks import require
from strop.hf.bounds import weight_bound
from strop.hf.load import longest
from strop.hf.observe import Measurement, observed
from strop.hf.summary import sentence, summarise
from strop.hf.text import Text, windows
from strop.records import Record


@dataclass(frozen=True)
class ProbeConfig:
    """Everything that the numbers of a probe depend on, the machine apart."""

    model: str
    lengths: tuple[int, ...]
    text: str
    text_sha256: str
    weights: str
    samples: int = 1
    dtype: str = "float32"


@dataclass(frozen=True)
class Probed:
    """What a probe found: a record for each length and head, one for each head, and the sentence."""

    records: list[Record]
    heads: list[Record]
    sentence: str
    folder: Path | None = None
    config: ProbeConfig | None = None


def measure_lengths(
    model: nn.Module,
    inputs: Mapping[int, Mapping[str, Tensor]],
    known: Sequence[Record] = (),
    done: Callable[[int, list[Record]], None] = lambda n, rows: None,
) -> list[Record]:
    """Run the model on inputs of each length n that `known` does not hold yet; return all records."""
    rows = list(known)
    bounds: dict[str, list[float] | None] = {}
    for n in sorted(set(inputs) - {record["n"] for record in known}):
        calls = _run(model, inputs[n])
        bounds = bounds or {call.name: weight_bound(model, call) for call in calls}
        fresh = [record for call in calls for record in _by_head(n, call, bounds[call.name])]
        rows += fresh
        done(n, fresh)
    return rows


def default_lengths(model: nn.Module) -> tuple[int, ...]:
    """Doublings up to 2,048, or to the most positions the model has, from 128; from 64 or 16 where these are few."""
    most = min(longest(model) or 2048, 2048)
    least = 128 if most >= 1024 else 64 if most >= 128 else 16
    found = tuple(n for n in (16, 32, 64, 128, 256, 512, 1024, 2048) if least <= n <= most)
    return found if len(found) > 1 else (most // 2, most)


def check_lengths(model: nn.Module, lengths: Sequence[int]) -> tuple[int, ...]:
    """Return sorted lengths that the model has positions for."""
    most = longest(model)
    require(most is None or max(lengths) <= most, f"lengths must be at most the model's {most} positions", max(lengths))
    require(min(lengths) >= 8, "lengths must be at least 8", min(lengths), "Shorter contexts say nothing about growth")
    found = tuple(sorted(set(lengths)))
    require(len(found) > 1, "lengths must be two or more", found, "One length says nothing about growth")
    return found


def text_inputs(
    model: nn.Module, tokeniser: Any, text: Text, lengths: tuple[int, ...], samples: int, bos: bool
) -> dict[int, dict[str, Tensor]]:
    """Return the model's inputs for each length; an encoder-decoder reads the text on both sides."""
    tokens = windows(tokeniser, text, lengths, samples, bos)
    both = bool(getattr(model.config, "is_encoder_decoder", False))
    return {n: {"input_ids": ids} | ({"decoder_input_ids": ids} if both else {}) for n, ids in tokens.items()}


def probe(
    model: nn.Module,
    inputs: Mapping[int, Mapping[str, Tensor]],
    name: str | None = None,
    config: ProbeConfig | None = None,
    root: str | Path | None = None,
    done: Callable[[int], None] = lambda n: None,
) -> Probed:
    """Measure a model on inputs of several lengths. With `root` and `config`, keep records there and resume."""
    if config is None or root is None:
        return _probed(measure_lengths(model, inputs, done=lambda n, rows: done(n)), name or type(model).__name__)
    run = records.Run.of(config, "probe", root=root)
    with run.claimed():  # a second probe of the same waits, and finds everything done
        run.begin(config)
        rows = _resumed(model, inputs, run.folder / "partial.jsonl", done)
        if not run.finished:  # what was measured before keeps its provenance
            run.finish(config, rows)
    return replace(_probed(rows, name or type(model).__name__), folder=run.folder, config=config)


def _resumed(
    model: nn.Module, inputs: Mapping[int, Mapping[str, Tensor]], path: Path, done: Callable[[int], None]
) -> list[Record]:
    """Measure the lengths that the file does not hold yet, and write it anew, whole, after each."""
    kept = records.read(path) if path.exists() else []

    def finished(n: int, rows: list[Record]) -> None:
        kept.extend(rows)
        records.write(path, kept)
        done(n)

    for n in {int(str(record["n"])) for record in kept}:
        done(n)
    return measure_lengths(model, inputs, tuple(kept), finished)


def _probed(rows: list[Record], name: str) -> Probed:
    heads = summarise(rows)
    return Probed(rows, heads, sentence(name, heads))


@torch.inference_mode()
def _run(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[Measurement]:
    cache = {"use_cache": False} if hasattr(getattr(model, "config", None), "use_cache") else {}
    with observed(model) as seen:
        model(**inputs, **cache)
    apart = len(seen.layers)  # a module that runs several times a pass (ALBERT) is a layer each time
    return [replace(call, layer=call.layer + apart * call.step) for call in seen.calls]


def _by_head(n: int, call: Measurement, bound: list[float] | None) -> list[Record]:
    columns: dict[str, list[float]] = {name: values.tolist() for name, values in call.numbers.items()}
    columns |= {} if bound is None else {"spread_bound": bound}
    place: Record = {"n": n, "layer": call.layer, "name": call.name, "spread_bound": None}
    heads = len(call.numbers["spread"])
    return [
        {**place, "head": head, **{name: values[head] for name, values in columns.items()}} for head in range(heads)
    ]
