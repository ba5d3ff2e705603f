"""A few logits of a few rows: which keys a row may see there, and what they are, at a cost of rows × columns × d.

Rows are [R] indices of query rows; columns are [B, R, C] indices of keys, one list for each row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from strop.hf.calls import Call
from strop.hf.masks import LazyMask
from strop.sharpness import upcast


def logits_at(call: Call, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the logits [B, H, R, C]; those of hidden keys mean nothing."""
    query, key = upcast(call.query[..., rows, :]), upcast(call.key)
    flat = columns.clamp(0, key.shape[-2] - 1).flatten(1)[:, None, :, None].expand(-1, key.shape[1], -1, key.shape[-1])
    near = key.gather(2, flat).unflatten(2, columns.shape[1:])
    groups = query.unflatten(1, (key.shape[1], -1))
    logits = call.logit_scale * torch.einsum("bkgrd,bkrcd->bkgrc", groups, near).flatten(1, 2)
    if call.softcap is not None:
        logits = call.softcap * torch.tanh(logits / call.softcap)
    added = [call.bias, call.mask if isinstance(call.mask, Tensor) and call.mask.is_floating_point() else None]
    for table in added:
        if table is not None:
            logits = logits + _at(_some_rows(table, rows), columns).to(logits)
    return logits


def visible_at(call: Call, rows: Tensor, columns: Tensor) -> Tensor:
    """Return whether rows may see their columns, bool, broadcastable to [B, H, R, C]; False off the ends."""
    inside = ((columns >= 0) & (columns < call.key.shape[-2]))[:, None]
    if call.causal:
        return inside & (columns <= rows[:, None])[:, None]
    if call.mask is None:
        return inside
    mask = call.mask.some(rows) if isinstance(call.mask, LazyMask) else call.mask
    picked = _at(_some_rows(mask, rows), columns)
    return inside & (picked if picked.dtype == torch.bool else picked > torch.finfo(picked.dtype).min / 2)


def first_keys(call: Call) -> Tensor:
    """Return the first key that anything in each batch entry may see, [B]: past the padding on the left."""
    start = torch.zeros(len(call.query), dtype=torch.long, device=call.query.device)
    if isinstance(call.mask, LazyMask):
        return start + call.mask.first_keys
    if call.mask is None:
        return start
    mask = call.mask[(None,) * (4 - call.mask.ndim)]
    keep = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return start + keep.flatten(1, -2).any(1).long().argmax(-1)


def own_keys(call: Call, rows: Tensor) -> Tensor | None:
    """Return the index of each row's own key, [B, R]; None for cross-attention, which has none."""
    n_q, n_k, batch = call.query.shape[-2], call.key.shape[-2], len(call.query)
    if call.cross:
        return None
    if call.causal or n_q == n_k:
        return rows.expand(batch, -1)
    if call.mask is None:
        return rows.expand(batch, -1) + (n_k - n_q)
    every = torch.arange(n_k, device=rows.device).expand(batch, len(rows), -1)
    seen = visible_at(call, rows, every).expand(batch, -1, -1, -1).any(1)
    return torch.where(seen, every, -1).amax(-1)  # with a cache, the last visible key is the row's own


def looks_ahead(call: Call) -> bool:
    """Whether rows see keys after their own: the first row sees the second key."""
    if call.query.shape[-2] != call.key.shape[-2] or call.key.shape[-2] < 2:
        return False
    zero = torch.zeros(1, dtype=torch.long, device=call.query.device)
    return bool(visible_at(call, zero, zero.expand(len(call.query), 1, 1) + 1).any())


def _some_rows(table: Tensor, rows: Tensor) -> Tensor:
    table = table[(None,) * (4 - table.ndim)]
    return table if table.shape[-2] in (1, len(rows)) else table[..., rows, :]


def _at(table: Tensor, columns: Tensor) -> Tensor:
    """Pick columns [B, R, C] out of [B or 1, H or 1, R or 1, n]."""
    batch, rows, count = columns.shape
    table = table.expand(batch, -1, rows, -1)
    picked = columns.clamp(0, table.shape[-1] - 1)[:, None].expand(-1, table.shape[1], -1, count)
    return table.gather(-1, picked)
