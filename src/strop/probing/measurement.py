"""One forward pass for each length: which lengths, what the model is given, and a record for each layer and head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.patching.observe import Measurement, observed
from strop.patching.placement import device_of
from strop.pretrained.load import count_positions, go_beyond
from strop.probing.bounds import bound_spread
from strop.records import Record


def default_lengths(model: nn.Module) -> tuple[int, ...]:
    """Doublings up to 2,048, or to the most positions the model has, from 128; from 64 or 16 where these are few."""
    most = min(count_positions(model) or 2048, 2048)
    least = 128 if most >= 1024 else 64 if most >= 128 else 16
    found = tuple(n for n in (16, 32, 64, 128, 256, 512, 1024, 2048) if least <= n <= most)
    return found if len(found) > 1 else (most // 2, most)


def check_lengths(model: nn.Module, lengths: Sequence[int], beyond: bool = False) -> tuple[int, ...]:
    """Return sorted lengths that the model has positions for; with `beyond`, warn of those that it has none for."""
    most, remedy = count_positions(model), "beyond=True, or --beyond, goes further"
    if beyond:
        go_beyond(lengths, model)
    else:
        fits = most is None or max(lengths) <= most
        require(fits, f"lengths must be at most the model's {most} positions", max(lengths), remedy)
    require(min(lengths) >= 8, "lengths must be at least 8", min(lengths), "Shorter contexts say nothing about growth")
    found = tuple(sorted(set(lengths)))
    require(len(found) > 1, "lengths must be two or more", found, "One length says nothing about growth")
    return found


def model_inputs(model: nn.Module, tokens: Mapping[int, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Return the model's inputs for each length; an encoder-decoder reads the text on both sides."""
    both = bool(getattr(model.config, "is_encoder_decoder", False))
    place = device_of(model)
    found = {n: ids.to(place) for n, ids in tokens.items()}
    return {n: {"input_ids": ids} | ({"decoder_input_ids": ids} if both else {}) for n, ids in found.items()}


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
        bounds = bounds or {call.name: bound_spread(model, call) for call in calls}
        fresh = [record for call in calls for record in _by_head(n, call, bounds[call.name])]
        rows += fresh
        done(n, fresh)
    return rows


@torch.inference_mode()
def _run(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[Measurement]:
    cache = {"use_cache": False} if hasattr(getattr(model, "config", None), "use_cache") else {}
    with observed(model, partial=True) as seen:  # whether that is accepted is asked at the door
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
