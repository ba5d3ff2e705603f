"""What the paper's Figure 2 shows: the weights of the items with the largest values, set by set, as sets grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from strop.sharpness import RowStats
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.problems.streams import stream
from strop.studies.retrieval.evaluation.frozen_retriever import FrozenRetriever, ItemStreamer, draw_batches
from strop.studies.retrieval.evaluation.temperature_rules import Rule


@torch.no_grad()
def top_item_weights(
    model: FrozenRetriever,
    task: MaxRetrieval,
    sizes: Sequence[int],
    rules: Mapping[str, Rule],
    sets: int = 32,
    items: int = 16,
    seed: int = 0,
) -> dict[str, dict[int, Tensor]]:
    """For each rule and size: weights [sets, items] of the items with the largest values, the largest last."""
    out: dict[str, dict[int, Tensor]] = {name: {} for name in rules}
    for size in sizes:
        rows: dict[str, list[Tensor]] = {name: [] for name in rules}
        streamer = ItemStreamer(model)
        for batch in draw_batches(task, size, sets, stream("figure", size, seed)):
            logits = streamer.logits(batch)
            stats = RowStats.of(logits)
            largest = batch.values.topk(min(items, size), dim=1).indices.flip(1)
            for name, rule in rules.items():
                beta = rule(logits, stats).expand(len(logits))
                weights = (beta.unsqueeze(1) * logits).softmax(-1)
                rows[name].append(weights.gather(1, largest))
        for name, parts in rows.items():
            out[name][size] = torch.cat(parts)
    return out
