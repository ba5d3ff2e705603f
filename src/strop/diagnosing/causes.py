"""Why an answer is wrong, by the heads that carry answers, at the row of the first wrong token.

Each carrier is in one state:

    reads        the evidence gets enough weight: ENOUGH of what the head gives it in right answers, at most one half;
                 and the right token in it no less than all other places of the one that the model writes
    dispersion   not enough, and the evidence comes first, or some β gives it half the weight: a temperature can mend it
    sink         the first token comes first, and no β helps: the head rests
    order        another key comes first, and no β helps

The heads vote, each with its cost (carriers.py); the state with the most votes is the cause. Where they read, the fault
lies behind attention:

    collapse     the last hidden state is hardly apart from that of a question with another answer: less than NEAR of
                 what is usual in right answers
    elsewhere    it is apart, and the answer is wrong all the same

Without a head that carries answers, the cause is `unknown`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

import torch
from torch import Tensor

from strop.diagnosing.carriers import Carrier
from strop.diagnosing.groups import Answered
from strop.records import Record, real

CAUSES = ("dispersion", "order", "sink", "collapse", "elsewhere", "unknown")
"""In the order in which they are told."""

STATES = ("reads", "dispersion", "sink", "order")
ENOUGH = 0.5
HALF = 0.5
NEAR = 0.1
NEAR_AT_ALL = 0.01
"""Share of the norm below which states are the same, where no right answer says what is usual."""


def find_causes(groups: Sequence[Answered], carriers: Sequence[Carrier]) -> list[Record]:
    """Return a record for every answer of a task: whether it is exact, and the cause where it is not."""
    enough, usual = usual_weights(groups, carriers), usual_distance(groups)
    return [answer for group in groups for answer in _judge_group(group, carriers, enough, usual)]


def count_causes(groups: Sequence[Answered], answers: Sequence[Record]) -> list[Record]:
    """Return a record for every group: what the answers are worth, and how many are wrong for which cause.

    `beta` is the median of the β that would give dispersed evidence half the weight; None where nothing is dispersed.
    """
    rows = []
    for group in groups:
        mine = [one for one in answers if (one["task"], one["size"]) == (group.task, group.size)]
        count = Counter(str(one["cause"]) for one in mine if one["cause"] is not None)
        betas = [real(one["beta"]) for one in mine if one["beta"] is not None]
        row = group.describe() | {cause: count[cause] for cause in CAUSES}
        rows.append(row | {"beta": median(betas) if betas else None})
    return rows


def usual_weights(groups: Sequence[Answered], carriers: Sequence[Carrier]) -> Tensor:
    """Return the weight that is enough for each carrier, [carriers]."""
    heads = [carrier.index for carrier in carriers]
    seen = [group.number("weight")[group.telling & group.exact[:, None]][:, heads] for group in groups]
    right = torch.cat(seen)
    if not len(right):
        return torch.full((len(heads),), HALF)
    return (ENOUGH * right.median(0).values).clamp(max=HALF)


def usual_distance(groups: Sequence[Answered]) -> float | None:
    """Return how far apart states are in right answers, or None where nothing says."""
    seen = torch.cat([group.apart[group.telling & group.exact[:, None]] for group in groups])
    seen = seen[~seen.isnan()]
    return float(seen.median()) if len(seen) else None


def find_states(group: Answered, carriers: Sequence[Carrier], enough: Tensor) -> Tensor:
    """Return the state of every carrier at every row, as a number in STATES, [q, r, carriers]."""
    heads = [carrier.index for carrier in carriers]
    names = ("weight", "held", "rival", "rank", "beta", "top")
    weight, held, rival, rank, beta, top = (group.number(name)[..., heads] for name in names)
    state = torch.where(top == 0, STATES.index("sink"), STATES.index("order"))
    state = torch.where((rank == 1) | beta.isfinite(), STATES.index("dispersion"), state)
    return torch.where((weight >= enough) & (held >= rival), STATES.index("reads"), state)


def _judge_group(group: Answered, carriers: Sequence[Carrier], enough: Tensor, usual: float | None) -> list[Record]:
    votes = torch.tensor([max(carrier.vote, 1e-12) for carrier in carriers], dtype=torch.float64)
    states = find_states(group, carriers, enough)
    rows: list[Record] = []
    at = dict(zip(*(one.tolist() for one in group.wrong_rows), strict=True))
    for i, exact in enumerate(group.exact.tolist()):
        row: Record = {
            "task": group.task, "size": group.size, "tokens": group.length, "question": i, "exact": exact,
            "nats": float(group.nats[i]), "sure": float(group.sure[i]), "cause": None, "agree": None, "beta": None,
        }  # fmt: skip
        if not exact:
            row |= _judge(group, carriers, states[i, at[i]], votes, i, at[i], usual)
        rows.append(row)
    return rows


def _judge(
    group: Answered,
    carriers: Sequence[Carrier],
    states: Tensor,
    votes: Tensor,
    question: int,
    at: int,
    usual: float | None,
) -> Record:
    if not carriers:
        return {"cause": "unknown"}
    share = torch.zeros(len(STATES), dtype=torch.float64).index_add(0, states, votes) / votes.sum()
    state = STATES[int(share.argmax())]
    found: Record = {"cause": state, "agree": float(share.max())}
    if state == "reads":
        near = NEAR_AT_ALL if usual is None else NEAR * usual
        apart = float(group.apart[question, at])
        found["cause"] = "collapse" if not math.isnan(apart) and apart < near else "elsewhere"
    if state == "dispersion":
        heads = [carrier.index for carrier, one in zip(carriers, states.tolist(), strict=True) if STATES[one] == state]
        betas = group.number("beta")[question, at, heads]
        found["beta"] = float(betas[betas.isfinite()].median()) if bool(betas.isfinite().any()) else None
    return found
