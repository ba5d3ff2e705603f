"""Every symptom against the size of the input, as records: one for each symptom, task and size.

`value` is the mean over all heads, `carriers` that over the heads that carry the task's answers; None where a symptom
has no heads. One of the model is measured at lengths of its own, and has no task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from strop.diagnosing.carriers import Carrier
from strop.diagnosing.groups import Answered
from strop.diagnosing.symptoms import ANSWER_SYMPTOMS, ROW_SYMPTOMS, TEXT_SYMPTOMS
from strop.records import Record


def follow_symptoms(groups: Sequence[Answered], carriers: Sequence[Carrier]) -> list[Record]:
    """Return the symptoms of a task's answers, size by size."""
    rows = []
    for group in groups:
        for symptom in ROW_SYMPTOMS:
            rows.append(_note_heads(symptom.name, group, average_heads(group, symptom.name), carriers))
        for i, text in enumerate(TEXT_SYMPTOMS):
            rows.append(_note_heads(text.name, group, group.texts[:, i], carriers))
        for i, one in enumerate(ANSWER_SYMPTOMS):
            value = one.join(group.output[..., i][group.counted])
            rows.append({**_place(one.name, group), "value": value, "carriers": None})
    return rows


def note_curve(name: str, curve: Mapping[int, float]) -> list[Record]:
    """Return the records of a symptom of the model."""
    place: Record = {"symptom": name, "task": None, "size": None}
    return [{**place, "tokens": n, "value": value, "carriers": None} for n, value in curve.items()]


def average_heads(group: Answered, name: str) -> Tensor:
    """Return the mean of a number over the telling rows of a group, by head."""
    return group.number(name)[group.telling].double().mean(0)


def _place(name: str, group: Answered) -> Record:
    return {"symptom": name, "task": group.task, "size": group.size, "tokens": group.length}


def _note_heads(name: str, group: Answered, heads: Tensor, carriers: Sequence[Carrier]) -> Record:
    own = heads[[carrier.index for carrier in carriers]]
    return {**_place(name, group), "value": _mean(heads), "carriers": _mean(own)}


def _mean(heads: Tensor) -> float | None:
    known = heads[~heads.isnan()]
    return float(known.mean()) if len(known) and math.isfinite(float(known.mean())) else None
