"""Before and after on the same prompts: intervals and paired tests.

wilson_interval  interval of a share that stays within [0, 1] and is right for few prompts
mcnemar_p        exact test on the prompts that changed: are gains and losses a fair coin?
sign_flip_p      the same question where several prompts share a passage and are not independent: the sum of each
                 passage's changes has a random sign if nothing changed (sign-flip permutation test)
flip_p           the same for changes of any size, one for each thing that is independent of the others (_flips.py)
holm             p-values corrected for their number
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from strop._flips import flip_p as flip_p


def wilson_interval(successes: float, total: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the 95 % interval of a share (another for another z)."""
    if total == 0:
        return 0.0, 1.0
    share, spread = successes / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def mcnemar_p(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Return the exact two-sided p-value of McNemar's test."""
    gains = sum(now and not then for then, now in zip(before, after, strict=True))
    losses = sum(then and not now for then, now in zip(before, after, strict=True))
    changed = gains + losses
    tail = sum(math.comb(changed, k) for k in range(min(gains, losses) + 1))
    return float(min(1.0, 2 * tail / 2**changed))  # whole numbers: floats end at 1,023 changes


def sign_flip_p(before: Sequence[bool], after: Sequence[bool], passages: Sequence[int]) -> float:
    """Return the two-sided p-value of the sign-flip test on the sums of changes within passages."""
    sums: dict[int, int] = {}
    for then, now, passage in zip(before, after, passages, strict=True):
        sums[passage] = sums.get(passage, 0) + int(now) - int(then)
    return flip_p(list(sums.values()))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given: p_(i) · (m − i), made monotone."""
    out, floor = [0.0] * len(p), 0.0
    for place, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        floor = max(floor, min(1.0, (len(p) - place) * p[i]))
        out[i] = floor
    return out
