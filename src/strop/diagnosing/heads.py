"""Every head's numbers at the answers' rows, and its role, decided in this order:

carries   it carries the answers of a task (carriers.py)
sink      half or more of its weight lies on the first token
local     half or more lies on its own and the 15 tokens before it
blunt     it gives no key half its weight: spread, and idle as far as answers go
other     it looks sharply at something else
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from strop.diagnosing.carriers import Carrier, score_retrieval
from strop.diagnosing.groups import Answered, HeadPlace
from strop.diagnosing.symptoms import ROW_SYMPTOMS, TEXT_SYMPTOMS
from strop.records import Record

ROLES = ("carries", "sink", "local", "blunt", "other")
HALF = 0.5
MEANS = ("weight", "top_weight", "entropy", "first_weight", "recent_weight", *(one.name for one in ROW_SYMPTOMS))


def describe_heads(
    places: Sequence[HeadPlace],
    groups: Mapping[str, Sequence[Answered]],
    carriers: Mapping[str, Sequence[Carrier]],
) -> list[Record]:
    """Return a record for each head over all tasks; a carrier's numbers are those of the task it carries most of."""
    every = [group for task in groups.values() for group in task]
    means = {name: _mean(every, name) for name in MEANS}
    texts = torch.stack([group.texts for group in every]).nanmean(0)
    means |= {one.name: texts[:, i] for i, one in enumerate(TEXT_SYMPTOMS)}
    retrieval = torch.stack([score_retrieval(task) for task in groups.values()]).amax(0)
    rows = []
    for i, place in enumerate(places):
        row: Record = {"layer": place.layer, "head": place.head, "name": place.name, "role": ""}
        row |= {"retrieval": float(retrieval[i])} | {name: float(mean[i]) for name, mean in means.items()}
        own = {task: one for task, found in carriers.items() for one in found if one.index == i}
        best = max(own.values(), key=lambda one: one.vote, default=None)
        row |= {
            "carries": ", ".join(own), "cost": None if best is None else best.cost,
            "gain": None if best is None else best.gain, "confirmed": None if best is None else best.confirmed,
        }  # fmt: skip
        row["role"] = name_role(row)
        rows.append(row)
    return rows


def name_role(row: Record) -> str:
    """Return the role of a head."""
    shares = {name: row[name] for name in ("first_weight", "recent_weight", "top_weight")}
    first, recent, top = (float(value or 0.0) for value in shares.values())
    if row["carries"]:
        return "carries"
    if first >= HALF:
        return "sink"
    if recent >= HALF:
        return "local"
    return "blunt" if top < HALF else "other"


def _mean(groups: Sequence[Answered], name: str) -> Tensor:
    """Mean of a number over all telling rows, by head."""
    return torch.cat([group.number(name)[group.telling] for group in groups]).double().mean(0)
