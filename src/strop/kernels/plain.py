"""One call of torch's own attention with a query that was scaled beforehand: what several implementations end with.

torch chooses the kernel (flash, memory-efficient, cuDNN, or the formula written out) by device, dtype and mask. Those
kernels multiply half precision as it is and add up in float32. Three things are made so that each of them will do: head
sizes of values and keys become one, grouped keys are repeated where the kernel wants as many as queries, and a row that
sees nothing, for which some kernels give NaN, is let see every key and set to zero afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from strop._types import Keep
from strop.kernels.dense import attend_block
from strop.kernels.request import Request
from strop.kernels.shapes import four_dimensional, four_dimensional_mask, repeat_heads
from strop.sharpness import upcast


class TorchMask(NamedTuple):
    """What rows may see, as torch's kernels take it.

    Attributes:
        keep: bool [b, h or 1, n_q or 1, n_k], in which every row sees something. None: every key, or the triangle.
        is_causal: Row i sees keys 0 … i.
        sees: bool [b, h or 1, n_q or 1], False where a row sees nothing. None: all see something.
    """

    keep: Keep | None
    is_causal: bool
    sees: Tensor | None

    @classmethod
    def of(cls, request: Request) -> TorchMask:
        """Read the mask of a request, without a table where torch needs none."""
        mask, n_q, n_k = request.mask, request.n_q, request.n_k
        plain = mask.keep is None and mask.bias is None
        if plain and (mask.diagonal is None or mask.diagonal >= n_k - 1):
            return cls(None, False, None)
        if plain and mask.diagonal == 0:
            return cls(None, True, None)
        keep = mask.dense(n_q, n_k, request.query.device)
        if keep is None:
            return cls(None, False, None)
        keep = four_dimensional_mask(keep.expand(*keep.shape[:-1], n_k), request.query)
        if mask.keep is None and mask.diagonal is not None and mask.diagonal >= 0:
            return cls(keep, False, None)
        sees = keep.any(-1)
        return cls(keep | ~sees[..., None], False, sees)

    def add(self, bias: Tensor | None) -> Tensor | None:
        """Return torch's `attn_mask`: bool, or these numbers [b, h or 1, n_q or 1, n_k] with −inf at hidden keys."""
        if bias is None or self.keep is None:
            return self.keep if bias is None else bias
        return bias.masked_fill(~self.keep, -torch.inf)


def attend_plainly(
    request: Request, seen: TorchMask, query: Tensor, scale: float, bias: Tensor | None = None
) -> Tensor:
    """Attend from a prepared query [b, h, n_q, d] to a request's keys and values, in the query's dtype.

    `bias` is what to add to the scaled logits, in the query's dtype. The output has the shape and dtype of the request.
    """
    key, value = (four_dimensional(tensor).to(query.dtype) for tensor in (request.key, request.value))
    attn_mask = seen.add(bias)
    if scale == 0:  # into the query: a kernel that scales hidden logits, which are −inf, would make them NaN
        query, scale = 0.0 * query, 1.0
    grouped = key.shape[1] != query.shape[1]
    if grouped and not _takes_groups(query, key, seen.is_causal, attn_mask):
        key, value, grouped = repeat_heads(key, query), repeat_heads(value, query), False
    q, k, v = pad_widths(query, key, value)
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask, request.dropout_p, seen.is_causal, scale=scale, enable_gqa=grouped
    )[..., : value.shape[-1]]
    out = out if seen.sees is None else torch.where(seen.sees[..., None], out, 0.0)
    return out.reshape(*request.query.shape[:-1], value.shape[-1]).to(request.query.dtype)


def attend_to_nothing(request: Request) -> Tensor:
    """The output of no keys, no rows or no values, with its graph: kernels take no empty tensor."""
    key, value = (upcast(repeat_heads(tensor, request.query)) for tensor in (request.key, request.value))
    whole = request._replace(query=upcast(request.query), key=key, value=value)
    return attend_block(whole, careful=False, kept=None)[0].to(request.query.dtype)


def pad_widths(*tensors: Tensor, multiple: int = 1) -> tuple[Tensor, ...]:
    """Pad by zeros to one head size, the largest, made a multiple of a number."""
    width = -(-max(tensor.shape[-1] for tensor in tensors) // multiple) * multiple
    return tuple(F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x for x in tensors)


def _takes_groups(query: Tensor, key: Tensor, is_causal: bool, attn_mask: Tensor | None) -> bool:
    """Whether a fused kernel takes grouped keys: the CPU's always, of CUDA's the flash kernel.

    That one wants half precision, no mask, heads of at most 256, and a triangle to be square.
    """
    if query.device.type != "cuda":
        return query.device.type == "cpu"
    half = query.dtype in (torch.float16, torch.bfloat16)
    square = not is_causal or query.shape[-2] == key.shape[-2]
    return half and attn_mask is None and square and query.shape[-1] <= 256
