"""What a language model gets right, before and after: answers to passages, and prose at several lengths.

`answer_passages` and `score_prose` measure one model as it stands; `compare_answers`, `compare_overall` and
`compare_prose` put two measurements of the same prompts side by side. All is plain records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.evaluation.paired import holm, mcnemar_p, sign_flip_p, wilson_interval
from strop.ranks import ranks_here
from strop.records import Record, Value, real, whole
from strop.tasks.answers import Reader, answer_questions
from strop.tasks.passages import Passage

Tick = Callable[[int], None]


def answer_passages(
    model: nn.Module, reader: Reader, passages: Iterable[Passage], name: str, tick: Tick = lambda _: None
) -> list[Record]:
    """Return a record for every question: whether it was answered exactly, and how likely the answer was."""
    every, ranks = list(passages), ranks_here()

    def answer(i: int) -> list[Record]:
        passage = every[i]
        found = answer_questions(model, reader.encode(passage))
        kind: Record = {"task": name, "phrasing": passage.phrasing, "size": passage.size, "passage": i}
        tick(len(found) * ranks.size)  # the other ranks answer as many meanwhile
        return [
            {**kind, "question": j, "exact": one.exact, "nats": -one.log_likelihood / one.tokens}
            for j, one in enumerate(found)
        ]

    return [row for rows in ranks.collect(len(every), answer) for row in rows]


def compare_answers(before: Sequence[Record], after: Sequence[Record]) -> list[Record]:
    """Return a record for every task, phrasing and size: accuracies with intervals, likelihoods and p-values."""
    return [
        {"task": task, "phrasing": phrasing, "size": size}
        | _compare(pairs, [whole(then["passage"]) for then, _ in pairs])
        for (task, phrasing, size), pairs in _group(before, after).items()
    ]


def compare_overall(before: Sequence[Record], after: Sequence[Record]) -> Record:
    """Return one record of all prompts together.

    Every phrasing of a size asks the same things: its first passage and that of another phrasing count as one passage.
    """
    pairs, passages = [], []
    for (_, _, size), group in _group(before, after).items():
        places = {number: i for i, number in enumerate(dict.fromkeys(then["passage"] for then, _ in group))}
        pairs += group
        passages += [(size, places[then["passage"]]) for then, _ in group]
    numbers = {passage: i for i, passage in enumerate(dict.fromkeys(passages))}
    return _compare(pairs, [numbers[passage] for passage in passages])


def compare_sizes(before: Sequence[Record], after: Sequence[Record]) -> list[Record]:
    """Return a record for every size, all phrasings together; `p_holm` is the larger p-value, corrected over sizes.

    Phrasings must ask different things: every passage counts as one.
    """
    sizes: dict[Value, list[tuple[Record, Record]]] = {}
    for (_, _, size), group in _group(before, after).items():
        sizes.setdefault(size, []).extend(group)
    rows: list[Record] = [
        {"task": pairs[0][0]["task"], "phrasing": "all", "size": size}
        | _compare(pairs, [whole(then["passage"]) for then, _ in pairs])
        for size, pairs in sizes.items()
    ]
    corrected = holm([max(real(row["p_mcnemar"]), real(row["p_passages"])) for row in rows])
    return [row | {"p_holm": p} for row, p in zip(rows, corrected, strict=True)]


@torch.no_grad()
def score_prose(model: nn.Module, windows: Tensor) -> list[float]:
    """Return the mean loss, in nats a token, on every window [count, n]."""

    def score(i: int) -> float:
        ids = windows[i : i + 1]
        out: Any = model(input_ids=ids, use_cache=False)
        return -float(out.logits[0, :-1].float().log_softmax(-1).gather(-1, ids[0, 1:, None]).mean())

    return ranks_here().collect(len(windows), score)


def compare_prose(length: int, before: Sequence[float], after: Sequence[float]) -> Record:
    """Return mean losses, their difference and its standard error over windows."""
    change = torch.tensor(after) - torch.tensor(before)
    error = float(change.std() / len(change) ** 0.5) if len(change) > 1 else None
    mean = sum(before) / len(before)
    return {
        "tokens": length, "windows": len(before), "before": mean, "after": mean + float(change.mean()),
        "change": float(change.mean()), "standard_error": error,
    }  # fmt: skip


def _group(before: Sequence[Record], after: Sequence[Record]) -> dict[tuple[Value, ...], list[tuple[Record, Record]]]:
    """Pairs of the same prompt, by task, phrasing and size."""
    same = [_place(row) for row in before] == [_place(row) for row in after]
    require(same, "before and after must be of the same prompts", "others")
    groups: dict[tuple[Value, ...], list[tuple[Record, Record]]] = {}
    for then, now in zip(before, after, strict=True):
        groups.setdefault((then["task"], then["phrasing"], then["size"]), []).append((then, now))
    return groups


def _place(row: Record) -> tuple[object, ...]:
    return tuple(row[key] for key in ("task", "phrasing", "size", "passage", "question"))


def _compare(pairs: Sequence[tuple[Record, Record]], passages: Sequence[int]) -> Record:
    then, now = ([bool(pair[side]["exact"]) for pair in pairs] for side in (0, 1))
    total = len(pairs)
    low, high = wilson_interval(sum(then), total)
    low_after, high_after = wilson_interval(sum(now), total)
    nats, nats_after = (sum(real(pair[side]["nats"]) for pair in pairs) / total for side in (0, 1))
    return {
        "prompts": total, "passages": len(set(passages)),
        "before": sum(then) / total, "before_low": low, "before_high": high,
        "after": sum(now) / total, "after_low": low_after, "after_high": high_after,
        "gains": sum(b and not a for a, b in zip(then, now, strict=True)),
        "losses": sum(a and not b for a, b in zip(then, now, strict=True)),
        "p_mcnemar": mcnemar_p(then, now), "p_passages": sign_flip_p(then, now, passages),
        "nats_before": nats, "nats_after": nats_after,
    }  # fmt: skip
