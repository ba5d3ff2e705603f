"""The share of rotary frequencies that a head uses (“Round and Round We Go!”, arXiv 2410.06205).

A rotation turns dimensions in pairs, each with a frequency. Pair i adds at most ‖q_i‖·‖k_i‖ to a logit, and no rotation
changes these norms. With the norms of the keys averaged over all that a row sees, and shares s_i of their sum:

    share = exp(−Σ s_i·log s_i) / pairs

1 if all frequencies count alike, 1/pairs if one counts alone. NaN where positions are not rotary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from strop.diagnosing.symptoms.symptom import Rows, RowSymptom
from strop.edges.query_edits import find_pairs
from strop.sharpness import upcast


class RotaryShare(RowSymptom):
    """Frequencies used, as a share of all."""

    name = "rotary"
    title = "rotary frequencies used"
    paper = "Round and Round We Go! What makes Rotary Positional Encodings useful? (arXiv 2410.06205)"
    sentence = "Effective number of rotary frequencies behind a head's logits, as a share of all."
    share = True

    def measure(self, rows: Rows) -> Tensor:
        """From the norms of the pairs of query and keys."""
        request, size = rows.request, rows.request.query.shape[-1]
        pairs = find_pairs(rows.module, size)
        if int(pairs.max()) + 1 == size:
            return torch.full_like(rows.weighed.weight, torch.nan)
        picked = rows.asked.rows[:, None, :, None].expand(-1, request.n_heads, -1, size)
        query = pair_norms(upcast(request.query).gather(2, picked), pairs)
        key = (
            pair_norms(upcast(request.key), pairs).mean(2).repeat_interleave(query.shape[1] // request.key.shape[1], 1)
        )
        return count_used(query * key[:, :, None])


def pair_norms(vectors: Tensor, pairs: Tensor) -> Tensor:
    """Return the norm of each pair of dimensions, [*, pairs]."""
    sums = vectors.new_zeros(*vectors.shape[:-1], int(pairs.max()) + 1)
    return sums.index_add(-1, pairs.to(vectors.device), vectors * vectors).sqrt()


def count_used(parts: Tensor) -> Tensor:
    """Return the effective number of parts, as a share of all: exp(entropy) / number."""
    share = nn.functional.normalize(parts, p=1, dim=-1)
    return (-torch.xlogy(share, share).sum(-1)).exp() / parts.shape[-1]


symptoms = (RotaryShare(),)
