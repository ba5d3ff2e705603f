"""The temperature family by ordinary attention calls: exact, O(n) memory, at the speed of torch's own fused kernel.

With logits e_j = scale·q·k_j and p = softmax(e), one call with the *keys as values* gives E_p[k] and the row's
log-sum-exp, hence

    H = logsumexp − scale·q·E_p[k]

and β(H) then scales the query of a second, ordinary call. Where β depends on nothing or on n alone, the first call is
not made.

torch's log-sum-exp carries no gradient. Its gradient is d lse = Σ p_j d e_j, which is that of scale·q·A with A = Σ
p_j k_j for *fixed* weights p, so a call with detached queries and keys and the live keys as values carries it: lse +
(scale·q·A − detached itself). The first call runs in float32 for half-precision inputs: in bfloat16 the difference of
two large numbers would lose the entropy.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from strop._types import Rows
from strop.kernels.dense import attend_block
from strop.kernels.implementation import Implementation
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.kernels.shapes import four_dimensional, repeat_heads
from strop.kernels.tracing import has_numbers, is_transformed
from strop.normalisers import Temperature
from strop.normalisers.fusion import TEMPERATURES
from strop.sharpness import RowStats, upcast


class FusedCalls(Implementation):
    """One call, two, or three when training through β."""

    def find_obstacle(self, request: Request) -> str | None:
        """Say what plain attention calls cannot express."""
        query, key, value, mask = request[:4]
        if not isinstance(request.normaliser.fusion(), TEMPERATURES):
            return f"{type(request.normaliser).__name__} is not of the temperature family"
        if request.softcap is not None:
            return "soft-capped logits are not a product of query and key"
        if request.dropout_p:
            return "torch's fused kernel has no dropout on the CPU"
        if request.return_stats:
            return "a fused call does not tell a row's largest and smallest logit"
        if is_transformed():
            return "torch's fused kernel has no rules for torch.func's transforms"
        if mask.adds:
            return "an additive bias cannot be scaled by row"
        if has_numbers(query) and not bool((query.sum() + key.sum() + value.sum()).isfinite()):
            return "torch's fused kernel does not keep a NaN or inf to the rows that may see it"
        return None

    def run(self, request: Request) -> tuple[Tensor, None]:
        """Attend."""
        query, key, value = request[:3]
        normaliser = request.normaliser
        assert isinstance(normaliser, Temperature)
        if query.numel() == 0 or value.numel() == 0:
            return _attend_to_nothing(request), None
        n_keys = request.n_keys
        q = four_dimensional(normaliser.prepare_query(upcast(query), n_keys))
        k, v = four_dimensional(upcast(key)), four_dimensional(upcast(value))
        n_keys = n_keys.expand(query.shape[:-1]).reshape(q.shape[:-1])
        call = _Call.of(request.mask, query, request.n_k, request.scale)
        beta = normaliser.find_beta(lambda: _measure(call, q, k, n_keys), lambda: RowStats.of_counts(n_keys, q.dtype))
        tempered = q * beta[..., None]
        out, _ = call(tempered, k, v)
        share = normaliser.sink_share(lambda: _measure(call, tempered, k, n_keys).logsumexp)
        out = out if share is None else out * share[..., None]
        return out.reshape(*query.shape[:-1], value.shape[-1]).to(query.dtype), None


def _attend_to_nothing(request: Request) -> Tensor:
    """The output of no keys or no rows, with its graph: the kernel takes no empty tensor."""
    key, value = (upcast(repeat_heads(tensor, request.query)) for tensor in (request.key, request.value))
    whole = request._replace(query=upcast(request.query), key=key, value=value)
    return attend_block(whole, careful=False, kept=None)[0].to(request.query.dtype)


class _Call(NamedTuple):
    """One call of torch's fused kernel: values [b, h, n_k, d_v] → (their weighted mean, log-sum-exp)."""

    bias: Tensor | None
    is_causal: bool
    scale: float

    @classmethod
    def of(cls, mask: Mask, query: Tensor, n_k: int, scale: float) -> _Call:
        if mask.keep is None and mask.diagonal in (None, 0):
            return cls(None, mask.diagonal == 0, scale)
        keep = mask.dense(query.shape[-2], n_k, query.device)
        assert keep is not None
        bias = torch.zeros((), dtype=upcast(query).dtype, device=query.device).masked_fill(~keep, -torch.inf)
        if query.ndim > 4:
            bias = bias.expand(*query.shape[:-3], *(1, 1, 1)[bias.ndim :], *bias.shape[-3:])
        bias = four_dimensional(bias)
        return cls(bias.expand(*bias.shape[:2], query.shape[-2], n_k), False, scale)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        width = max(q.shape[-1], v.shape[-1])  # the kernel wants one head size
        q, k, v_wide = (F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x for x in (q, k, v))
        attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, logsumexp = attend(q, k, v_wide, 0.0, self.is_causal, attn_mask=self.bias, scale=self.scale)
        return out[..., : v.shape[-1]], logsumexp


def _measure(call: _Call, q: Tensor, k: Tensor, n_keys: Rows) -> RowStats:
    """Statistics with their gradients; largest and smallest logit stay unknown (NaN)."""
    expected_key, logsumexp = call(q, k, k)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad):
        carrier = call.scale * (q * call(q.detach(), k.detach(), k)[0]).sum(-1)
        logsumexp = logsumexp.detach() + carrier - carrier.detach()
    mean = call.scale * (q * expected_key).sum(-1)
    sees = n_keys > 0
    unknown = torch.full_like(mean, torch.nan)
    return RowStats(n_keys, unknown, unknown, torch.where(sees, logsumexp, -torch.inf), torch.where(sees, mean, 0.0))


implementation = FusedCalls()
