"""Gap counting (arXiv 2605.12697): how many keys come near the first one, and the β that parts them.

For a row with logits e and the largest one m, N(g) is how many of the other keys have a gap m − e of at most g. The
keys within g weigh at least N(g)·exp(−β·g) of what the first one weighs, so β must exceed log N(g)/g at every g for
the first to stand out:

    critical β = max over g of log N(g) / g

Below it the first keys are not parted, above it the entropy collapses. For n normal logits it grows like √log n. The
paper's own constants may differ: this is its scale, written out.

Gaps are counted in bins of WIDTH nats on a grid of the logits themselves, so that counts of blocks of keys add up to
the count of all, whatever order they come in, in memory that does not grow with n. A gap is known to WIDTH; beyond
BINS·WIDTH nats no key matters (exp(−16) of the first).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from strop.diagnosing.symptoms.symptom import Rows, RowSymptom

WIDTH = 0.125
BINS = 128


class GapCounts(NamedTuple):
    """Counts [*rows, BINS] of keys by bin below the highest one, whose place on the grid is `top` [*rows]."""

    top: Tensor
    counts: Tensor

    @classmethod
    def of(cls, logits: Tensor) -> GapCounts:
        """Count a block of keys [*rows, n]; hidden ones are −inf."""
        places = torch.where(logits.isfinite(), (logits / WIDTH).floor(), -math.inf)
        top = places.amax(-1)
        below = torch.where(places.isfinite(), top[..., None] - places, BINS).clamp(max=BINS).long()
        counts = torch.zeros(*logits.shape[:-1], BINS + 1, dtype=torch.long, device=logits.device)
        counts.scatter_add_(-1, below, torch.ones_like(below))
        return cls(top, counts[..., :BINS])

    def merge(self, other: GapCounts) -> GapCounts:
        """Return the counts of both blocks of keys together."""
        top = torch.maximum(self.top, other.top)
        return GapCounts(top, _lower(self, top) + _lower(other, top))

    def within(self) -> tuple[Tensor, Tensor]:
        """Return the gaps [BINS] and N at each of them [*rows, BINS]: the first key itself is not counted."""
        gaps = WIDTH * torch.arange(1, BINS + 1, device=self.counts.device, dtype=torch.float64)
        return gaps, self.counts.cumsum(-1) - 1

    def critical_beta(self) -> Tensor:
        """Return the critical β of each row, right to WIDTH in the gap; 0 where nothing comes near."""
        gaps, near = self.within()
        return (near.clamp(min=1).double().log() / gaps).amax(-1)


def count_gaps(blocks: list[Tensor]) -> GapCounts:
    """Count the gaps of rows whose keys come in blocks, one after the other."""
    found = GapCounts.of(blocks[0])
    for block in blocks[1:]:
        found = found.merge(GapCounts.of(block))
    return found


def _lower(one: GapCounts, top: Tensor) -> Tensor:
    """The counts seen from a higher top: moved down by so many bins; those that fall out are forgotten."""
    steps = torch.where(one.top.isfinite(), top - one.top, BINS).nan_to_num(BINS).clamp(max=BINS).long()
    source = torch.arange(BINS, device=top.device) - steps[..., None]
    return torch.where(source >= 0, one.counts.gather(-1, source.clamp(min=0)), 0)


class CriticalBeta(RowSymptom):
    """The critical β of a head."""

    name = "critical_beta"
    title = "critical β"
    paper = "A Unified Framework for Critical Scaling of Inverse Temperature (arXiv 2605.12697)"
    sentence = "Factor of the logits below which the keys nearest to the first are not parted from it."

    def measure(self, rows: Rows) -> Tensor:
        """Count the gaps of every row."""
        return GapCounts.of(rows.logits).critical_beta()


symptoms = (CriticalBeta(),)
