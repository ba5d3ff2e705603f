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

from strop.kernels import Request, attend
from strop.kernels.dense import form_logits
from strop.patching.frames import PLAIN
from strop.sharpness import RowStats, best_top_weight, upcast

ROWS = 256
RECENT = 16


@torch.no_grad()
def measure(request: Request, cross: bool = False) -> dict[str, Tensor]:
    """Return each quantity as [H], averaged over batch and rows; `cross`: the keys are not the queries' own tokens."""
    rows = last_rows(request.n_q).to(request.query.device)
    some = request.pick(rows)
    stats = row_stats(some)
    seen = stats.n_keys > 0
    spent = torch.ones_like(stats.mean)
    if request.sink is not None:
        spent = torch.sigmoid(stats.logsumexp - request.sink[:, None].to(stats.mean))
    own = None if cross else _own_keys(request, some, rows)
    few = _few_weights(request, some, stats, own)
    first, recent, spent, seen = (one.cpu() for one in (*few, spent, seen))
    stats = stats.map(Tensor.cpu)  # small, and not every device has float64
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


def row_stats(request: Request) -> RowStats:
    """Return the statistics of the raw logits of a request's rows, [B, H, n_q]."""
    stats = attend(request._replace(normaliser=PLAIN, dropout_p=0.0, return_stats=True, sink=None))[1]
    assert stats is not None
    return stats.map(lambda field: field.expand(request.query.shape[:-1]))


def last_rows(n_q: int) -> Tensor:
    """Indices of the measured rows: evenly spaced over the last eighth, ROWS at most, the last one included."""
    start = n_q - max(1, n_q // 8)
    count = min(ROWS, n_q - start)
    return torch.linspace(start, n_q - 1, count).round().long() if count > 1 else torch.tensor([n_q - 1])


def logits_at(request: Request, columns: Tensor) -> Tensor:
    """Return a request's logits [B, H, n_q, C] at some keys [B, n_q, C]; those of hidden keys mean nothing."""
    query, key = upcast(request.query), upcast(request.key)
    flat = columns.clamp(0, key.shape[-2] - 1).flatten(1)[:, None, :, None].expand(-1, key.shape[1], -1, key.shape[-1])
    near = key.gather(2, flat).unflatten(2, columns.shape[1:])  # [B, H_kv, n_q, C, d]
    groups = query.unflatten(1, (key.shape[1], -1)).transpose(2, 3)  # [B, H_kv, n_q, G, d]
    logits = form_logits(groups, near, request.scale, request.softcap, None).transpose(2, 3).flatten(1, 2)
    bias = request.mask.bias
    return logits if bias is None else logits + _at(bias, columns).to(logits)


def visible_at(request: Request, columns: Tensor) -> Tensor:
    """Return whether rows may see keys [B, n_q, C], bool, broadcastable to [B, H, n_q, C]; False off the ends."""
    inside = ((columns >= 0) & (columns < request.n_k))[:, None]
    keep = request.mask.dense(request.n_q, request.n_k, columns.device)
    return inside if keep is None else inside & _at(keep, columns)


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


def _few_weights(request: Request, some: Request, stats: RowStats, own: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weights on the first key and, summed, on the recent ones, [B, H, R]; NaN for cross-attention's recent ones."""
    zero = torch.zeros(len(request.query), dtype=torch.long, device=request.query.device)
    first = (zero + request.mask.first_keys().to(zero.device))[:, None, None].expand(-1, some.n_q, 1)
    columns = first if own is None else torch.cat([first, _near(own, _looks_ahead(request))], -1)
    logits = logits_at(some, columns) - stats.logsumexp[..., None]
    weights = torch.where(visible_at(some, columns), logits.exp(), 0.0)
    recent = torch.full_like(weights[..., 0], torch.nan) if own is None else weights[..., 1:].sum(-1)
    return weights[..., 0], recent


def _own_keys(request: Request, some: Request, rows: Tensor) -> Tensor:
    """Return the index of each row's own key, [B, R]."""
    n_q, n_k, batch = request.n_q, request.n_k, len(request.query)
    if request.mask.diagonal is not None or n_q == n_k:
        return rows.expand(batch, -1)
    keep = some.mask.keep
    if keep is None:
        return rows.expand(batch, -1) + (n_k - n_q)
    seen = keep[(None,) * (4 - keep.ndim)].expand(batch, -1, len(rows), -1).any(1)
    keys = torch.arange(n_k, device=rows.device)
    return torch.where(seen, keys, -1).amax(-1)  # with a cache, the last visible key is the row's own


def _looks_ahead(request: Request) -> bool:
    """Whether rows see keys after their own: the first row sees the second key."""
    if request.n_q != request.n_k or request.n_k < 2:
        return False
    zero = torch.zeros(1, dtype=torch.long, device=request.query.device)
    return bool(visible_at(request.pick(zero), zero.expand(len(request.query), 1, 1) + 1).any())


def _near(own: Tensor, two_sided: bool) -> Tensor:
    return own[..., None] + torch.arange(1 - RECENT, RECENT if two_sided else 1, device=own.device)


def _at(table: Tensor, columns: Tensor) -> Tensor:
    """Pick columns [B, R, C] out of [.., R or 1, n]."""
    batch, rows, count = columns.shape
    table = table[(None,) * (4 - table.ndim)].expand(batch, -1, rows, -1)
    picked = columns.clamp(0, table.shape[-1] - 1)[:, None].expand(-1, table.shape[1], -1, count)
    return table.gather(-1, picked)
