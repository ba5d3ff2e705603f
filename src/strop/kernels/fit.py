"""From the tensors that torch's attention takes to those that an implementation takes: one dtype, one batch.

As in torch's function, `torch.autocast` chooses the dtype and the dimensions before [n, d] broadcast against each
other. Nothing is copied for it. Under `enable_gqa` the heads, [*batch, heads, n, d], are grouped instead of broadcast.

A message is formed only when it is raised: sizes may be symbols, which printing would make numbers.
"""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from strop.errors import ArgumentError, ArgumentTypeError
from strop.kernels.mask import is_causal_bias
from strop.kernels.shapes import broadcasts, repeat_heads
from strop.kernels.tracing import autocast, autocast_dtype

Three = tuple[Tensor, Tensor, Tensor]


def fit_tensors(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> Three:
    """Return query [*batch, h, n_q, d], key and value, all with the same batch; raise where they do not fit.

    Without `enable_gqa` key and value get the query's heads too; with it theirs divide the query's.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        _check_tensor(name, tensor, query)
    if autocast_dtype(query.device) is not None:
        query, key, value = autocast(query), autocast(key), autocast(value)
    if not query.dtype == key.dtype == value.dtype:
        name, other = ("key", key) if key.dtype != query.dtype else ("value", value)
        raise ArgumentTypeError(f"{name} must be {query.dtype} as the query is, got {other.dtype}.")
    rows, batch = key.shape[:-1], query.shape[:-2]
    same = query.shape[-1] == key.shape[-1] and rows == value.shape[:-1]
    if same and (rows[:-1] == batch or (enable_gqa and _are_groups(batch, rows[:-1]))):
        return query, key, value
    return _fit_sizes(query, key, value, enable_gqa)


def fit_mask(attn_mask: Tensor | None, query: Tensor) -> Tensor | None:
    """Return a mask of a dtype that torch's function takes beside this query; raise where it is another."""
    if attn_mask is None or attn_mask.dtype == torch.bool or is_causal_bias(attn_mask):
        return attn_mask
    mask = autocast(attn_mask)
    if mask.dtype not in (torch.float32, query.dtype):
        rule = "attn_mask must be bool or floating point, and then float32 or of the query's dtype"
        raise ArgumentTypeError(f"{rule}, got {mask.dtype}. A mask of 0 and 1 becomes bool by mask.bool().")
    return mask


def _check_tensor(name: str, tensor: Tensor, query: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
    if not tensor.is_floating_point():
        raise ArgumentTypeError(f"{name} must be floating point, got {tensor.dtype}. Use {name}.float().")
    if tensor.ndim < 2:
        raise ArgumentError(f"{name} must have at least 2 dimensions [n, d], got {tuple(tensor.shape)}.")
    if tensor.device != query.device:
        raise ArgumentError(f"{name} must be on {query.device} as the query is, got {tensor.device}.")


def _fit_sizes(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> Three:
    if key.shape[-1] != query.shape[-1]:
        raise ArgumentError(f"key must have the query's head size {query.shape[-1]}, got {key.shape[-1]}.")
    if value.shape[-2] != key.shape[-2]:
        raise ArgumentError(f"value must have the key's {key.shape[-2]} rows, got {tuple(value.shape)}.")
    if enable_gqa and query.ndim > 2:
        return _fit_groups(query, *(t if t.ndim > 2 else t[None] for t in (key, value)))
    return _share_batch((query, key, value), own=2)


def _are_groups(batch: torch.Size, grouped: torch.Size) -> bool:
    """Whether [*batch, heads] of keys are those of a query in groups, so that nothing has to be done."""
    if len(batch) != len(grouped) or batch[:-1] != grouped[:-1]:
        return False
    return grouped[-1] > 0 and batch[-1] % grouped[-1] == 0


def _fit_groups(query: Tensor, key: Tensor, value: Tensor) -> Three:
    heads = query.shape[-3]
    for name, own in (("key", key.shape[-3]), ("value", value.shape[-3])):
        if heads != own and (own == 0 or heads % own != 0):
            raise ArgumentError(f"{name} heads must divide the {heads} query heads, got {own}.")
    if key.shape[-3] != value.shape[-3]:
        key, value = repeat_heads(key, query), repeat_heads(value, query)
    return _share_batch((query, key, value), own=3)


def _share_batch(tensors: Three, own: int) -> Three:
    """Expand all dimensions before the last `own`, each tensor's own, to what they broadcast to."""
    batches = [tensor.shape[:-own] for tensor in tensors]
    if batches[0] == batches[1] == batches[2]:
        return tensors
    if not all(broadcasts(one, other) for one, other in combinations(batches, 2)):
        rule = f"key and value must have a batch that broadcasts with the query's {tuple(batches[0])}"
        remedy = "Fewer key heads than query heads need enable_gqa=True." if own == 2 else ""
        raise ArgumentError(f"{rule}, got {tuple(batches[1])} and {tuple(batches[2])}. {remedy}".rstrip())
    batch = torch.broadcast_shapes(*batches)
    query, key, value = (tensor.expand(*batch, *tensor.shape[-own:]) for tensor in tensors)
    return query, key, value
