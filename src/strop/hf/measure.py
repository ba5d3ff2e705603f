"""What one call of attention says of each head, from its row statistics and a handful of logits; never an n×n matrix.

Averages over the last eighth of the query rows (at most ROWS of them, evenly spaced), in which nearly the
whole context is visible; rows that see nothing are left out. With p = softmax(e) of a row, δ its spread and n
its visible keys:

    entropy, effective_keys, top_weight, spread: as in RowStats; spread_max is the largest of the rows
    log_top_weight   mean of log max p: its slope against log n is the head's slope
    first_weight     p on the first token: exp(e_first − logsumexp)
    recent_weight    Σ p over the last RECENT tokens, the row's own included (both ways for a bidirectional row)
    best_weight      the most that Lemma 2.1's tight case lets a row with this n and δ give to one key
    position         (log max p − log 1/n) / (log best − log 1/n): 0 = an average, 1 = as sharp as its spread allows
    null_weight      weight on the model's own sink key (gpt-oss), which is no token; all others are less by it
"""

from __future__ import annotations

import torch
from torch import Tensor

from strop.hf.calls import Call, row_stats
from strop.hf.columns import first_keys, logits_at, looks_ahead, own_keys, visible_at
from strop.sharpness import RowStats, best_top_weight

ROWS = 256
RECENT = 16


@torch.no_grad()
def measure(call: Call) -> dict[str, Tensor]:
    """Return each quantity as [H], averaged over batch and rows."""
    rows = last_rows(call.query.shape[-2]).to(call.query.device)
    stats = row_stats(call, rows)
    seen = stats.n_keys > 0
    spent = torch.ones_like(stats.mean)
    if call.sink is not None:
        spent = torch.sigmoid(stats.logsumexp - call.sink[:, None].to(stats.mean))
    first, recent = _few_weights(call, stats, rows)
    values = {
        "n_keys": stats.n_keys,
        "entropy": stats.entropy,
        "effective_keys": stats.effective_keys,
        "top_weight": stats.top_weight * spent,
        "log_top_weight": torch.where(seen, (stats.top_weight * spent).clamp(min=1e-30).log(), 0.0),
        "spread": stats.spread,
        "first_weight": first * spent,
        "recent_weight": recent * spent,
        **_theory(stats),
        "null_weight": 1.0 - spent,
    }
    means = {name: _mean(value, seen) for name, value in values.items()}
    return means | {"spread_max": stats.spread.transpose(0, 1).flatten(1).amax(1)}


def last_rows(n_q: int) -> Tensor:
    """Indices of the measured rows: evenly spaced over the last eighth, ROWS at most, the last one included."""
    start = n_q - max(1, n_q // 8)
    count = min(ROWS, n_q - start)
    return torch.linspace(start, n_q - 1, count).round().long() if count > 1 else torch.tensor([n_q - 1])


def _theory(stats: RowStats) -> dict[str, Tensor]:
    n = stats.n_keys.clamp(min=1).double()
    best = torch.as_tensor(best_top_weight(n, stats.spread.double().nan_to_num(0.0)))
    room = best.log() + n.log()
    used = (stats.max - stats.logsumexp).double().nan_to_num(0.0) + n.log()
    return {"best_weight": best, "position": torch.where(room > 1e-9, used / room.clamp(min=1e-9), 1.0).clamp(0, 1)}


def _mean(value: Tensor, seen: Tensor) -> Tensor:
    """Mean over batch and seen rows, by head; NaN where nothing was seen."""
    value, seen = value.transpose(0, 1).flatten(1).double(), seen.transpose(0, 1).flatten(1)
    return torch.where(seen, value, 0.0).sum(1) / seen.sum(1)


def _few_weights(call: Call, stats: RowStats, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Weights on the first key and, summed, on the recent ones, [B, H, R]; NaN for cross-attention's recent ones."""
    first = first_keys(call)[:, None, None].expand(-1, len(rows), 1)
    own = own_keys(call, rows)
    columns = first if own is None else torch.cat([first, _near(own, looks_ahead(call))], -1)
    keep = visible_at(call, rows, columns)
    weights = torch.where(keep, (logits_at(call, rows, columns) - stats.logsumexp[..., None]).exp(), 0.0)
    recent = torch.full_like(weights[..., 0], torch.nan) if own is None else weights[..., 1:].sum(-1)
    return weights[..., 0], recent


def _near(own: Tensor, two_sided: bool) -> Tensor:
    return own[..., None] + torch.arange(1 - RECENT, RECENT if two_sided else 1, device=own.device)
