"""Can a temperature mend it? One step of one is tried: what it mends among prompts that it was not made from.

The gradient of the answers' loss with respect to log β of every head is taken on LEARNED questions, or a few more where
they share a passage. The step goes down that gradient, so far that the head that moves most has log β changed by STEP:

    log β = −STEP · g / max |g|

and the other questions are asked with it. It is no calibration: nothing keeps ordinary prose as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from strop.calibration.numbers import Numbers
from strop.diagnosing.asking import Asked, answer_rows, exact, read_context
from strop.diagnosing.plan import LEARNED
from strop.records import Record
from strop.tasks.answers import answer_loss

TESTED = 16
"""Questions after which no further passage is asked."""

STEP = 0.5
"""How far log β moves where it moves most: β between 0.61 and 1.65."""


def try_temperature(model: nn.Module, passages: Sequence[Asked], right: Tensor) -> Record | None:
    """Make one step of temperatures from some passages and try it on others; None where there are too few.

    `right` says which questions of all passages, one after the other, are answered exactly without it.
    """
    learned = _take(passages, LEARNED)
    tested = _take(passages[len(learned) :], TESTED)
    if not tested:
        return None
    numbers = Numbers(model, "constant", outputs=False)
    with torch.enable_grad(), numbers.on(model):
        answer_loss(model, [asked.encoded for asked in learned]).backward()
    step_down(list(numbers.parameters()))
    with numbers.on(model):
        after = _ask_all(model, tested)
    first = sum(len(asked.ids) for asked in learned)
    before = right[first : first + len(after)]
    return {
        "learned": first, "tested": len(before), "wrong": int((~before).sum()),
        "mended": int((~before & after).sum()), "broken": int((before & ~after).sum()),
    }  # fmt: skip


@torch.no_grad()
def step_down(numbers: Sequence[Tensor]) -> None:
    """Move numbers from 0 against their gradients, the largest change being STEP."""
    slopes = [torch.zeros_like(one) if one.grad is None else one.grad for one in numbers]
    largest = max(float(slope.abs().max()) for slope in slopes)
    for one, slope in zip(numbers, slopes, strict=True):
        one.copy_(-STEP * slope / largest if largest > 0 else torch.zeros_like(slope))


def _take(passages: Sequence[Asked], questions: int) -> list[Asked]:
    """The first passages, until they hold so many questions."""
    taken: list[Asked] = []
    for asked in passages:
        if sum(len(one.ids) for one in taken) >= questions:
            break
        taken.append(asked)
    return taken


@torch.no_grad()
def _ask_all(model: nn.Module, passages: Sequence[Asked]) -> Tensor:
    """Which questions are answered exactly."""
    return torch.cat([exact(asked, answer_rows(model, asked, read_context(model, asked))) for asked in passages]).cpu()
