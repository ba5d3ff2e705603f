"""Gap counting (arXiv 2605.12697): how many keys come near the first one, and the β that parts them.

For a row with logits e and the largest one m, N(g) is how many of the other keys have a gap m − e of at most g. The
keys within g weigh at least N(g)·exp(−β·g) of what the first one weighs, so β must exceed log N(g)/g at every g for
the first to stand out:

    critical β = max over g of log N(g) / g

Below it the first keys are not parted, above it the entropy collapses. For n normal logits it grows like √log n. The
paper's own constants may differ: this is its scale, written out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from strop._types import Keep, Logits, Rows
from strop.sharpness.rowstats import upcast

WIDTH = 0.125
BINS = 128


class GapCounts(NamedTuple):
    """How many keys of each query row lie how far below its largest logit, in 128 bins of 1/8 nat.

    Bins are cut on a grid of the logits themselves: a key's place is ⌊8·e⌋, and bin b counts the keys b places below
    the highest. So two disjoint sets of keys merge exactly, in any order, in memory that does not grow with n, and a
    gap is known to 1/8 nat. Keys 16 nats below the first, of exp(−16) of its weight, are not counted.

    A row that sees nothing has top −inf and counts 0, and is the identity of `merge`. A row that sees a NaN or +inf has
    that as its top, and counts 0.

    Get it from `strop.kernels.count_gaps`, or from logits by `GapCounts.of`.

    Attributes:
        top: Place of the largest logit, [*batch, n_q].
        counts: Keys by bin, [*batch, n_q, 128], int32.

    Examples:
        >>> import torch
        >>> from strop.sharpness import GapCounts
        >>> found = GapCounts.of(torch.tensor([[5.0, 4.5, 4.5, 4.0, -20.0]]))
        >>> found.top, found.counts[0, :9].tolist()
        (tensor([40.]), [1, 0, 0, 0, 2, 0, 0, 0, 1])
        >>> round(found.critical_beta().item(), 2)  # two keys within 0.625, three within 1.125
        1.11
    """

    top: Rows
    counts: Tensor

    @classmethod
    def of(cls, logits: Logits, keep: Keep | None = None) -> GapCounts:
        """Count logits.

        Args:
            logits: [*batch, n_q, n_k], scaled, hidden keys included.
            keep: True where a row may look, broadcastable to the logits. None: everywhere.
        """
        places = (upcast(logits) / WIDTH).floor()
        if keep is not None:
            places = torch.where(keep, places, -math.inf)
        if places.shape[-1] == 0:
            places = places.new_full((*places.shape[:-1], 1), -math.inf)
        top = places.amax(-1)
        below = top[..., None] - places
        bins = torch.where(below < BINS, below, BINS).long()
        nothing = torch.zeros(*top.shape, BINS + 1, dtype=torch.int32, device=top.device)
        counts = nothing.scatter_add(-1, bins, torch.ones_like(bins, dtype=torch.int32))
        return cls(top, counts[..., :BINS])

    def merge(self, other: GapCounts) -> GapCounts:
        """Return the counts of the union of two disjoint sets of keys."""
        top = torch.maximum(self.top, other.top)
        return GapCounts(top, self._below(top) + other._below(top))

    def within(self) -> tuple[Tensor, Tensor]:
        """Return the gaps [128] and N at each of them [*batch, n_q, 128]: the first key itself is not counted."""
        gaps = WIDTH * torch.arange(1, BINS + 1, device=self.counts.device, dtype=torch.float64)
        return gaps, self.counts.cumsum(-1) - 1

    def critical_beta(self) -> Rows:
        """Return the critical β of each row, right to 1/8 nat in the gap; 0 where nothing comes near."""
        gaps, near = self.within()
        return (near.clamp(min=1).double().log() / gaps).amax(-1)

    def _below(self, top: Rows) -> Tensor:
        """The counts seen from a higher top: moved down by so many bins; those that fall out are forgotten."""
        steps = (top - self.top).nan_to_num(BINS).clamp(max=BINS).long()
        source = torch.arange(BINS, device=top.device) - steps[..., None]
        return torch.where(source >= 0, self.counts.gather(-1, source.clamp(min=0)), 0)
