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
from strop.kernels.implementation import Implementation
from strop.kernels.plain import TorchMask, attend_plainly, attend_to_nothing, pad_widths
from strop.kernels.request import Request
from strop.kernels.shapes import four_dimensional, repeat_heads
from strop.kernels.tracing import is_known, is_transformed
from strop.normalisers import Temperature
from strop.normalisers.fusion import TEMPERATURES
from strop.sharpness import RowStats, upcast

ALIGNED = 16
"""CUDA's memory-efficient kernel wants head sizes, and rows of a mask, to be multiples of this many numbers at most."""


class FusedCalls(Implementation):
    """One call, two, or three when training through β."""

    def find_obstacle(self, request: Request) -> str | None:
        """Say what plain attention calls cannot express."""
        if not isinstance(request.normaliser.fusion(), TEMPERATURES):
            return f"{type(request.normaliser).__name__} is not of the temperature family"
        if request.softcap is not None:
            return "soft-capped logits are not a product of query and key"
        if request.dropout_p and request.query.device.type == "cpu":
            return "torch's fused kernel has no dropout on the CPU"
        if request.return_stats:
            return "a fused call does not tell a row's largest and smallest logit"
        if is_transformed():
            return "torch's fused kernel has no rules for torch.func's transforms"
        if request.mask.adds:
            return "an additive bias cannot be scaled by row"
        if not request.finite:
            return "torch's fused kernel does not keep a NaN or inf to the rows that may see it"
        return None

    def run(self, request: Request) -> tuple[Tensor, None]:
        """Attend."""
        query, key, value = request[:3]
        normaliser = request.normaliser
        assert isinstance(normaliser, Temperature)
        if query.numel() == 0 or value.numel() == 0:
            return attend_to_nothing(request), None
        n_keys = request.n_keys
        q, k = four_dimensional(normaliser.prepare_query(upcast(query), n_keys)), four_dimensional(upcast(key))
        n_keys = n_keys.expand(query.shape[:-1]).reshape(q.shape[:-1])
        seen = TorchMask.of(request)
        call = _Measuring.of(seen, q, request.n_k, request.scale)
        beta = normaliser.find_beta(lambda: call.measure(q, k, n_keys), lambda: RowStats.of_counts(n_keys, q.dtype))
        tempered = q * beta[..., None]
        out = attend_plainly(
            request, seen, tempered if query.device.type == "cpu" else tempered.to(query.dtype), request.scale
        )
        lost = (beta.isnan() & (n_keys > 0)).reshape(query.shape[:-1])  # a rule that reads what stays unknown
        out = out.masked_fill(lost[..., None], torch.nan)  # torch's kernel would swallow it
        share = normaliser.sink_share(lambda: call.measure(tempered, k, n_keys).logsumexp)
        return out if share is None else (out * share.reshape(query.shape[:-1])[..., None]).to(out.dtype), None


class _Measuring(NamedTuple):
    """Calls that tell the log-sum-exp: of torch's flash kernel on the CPU, of its memory-efficient kernel on CUDA."""

    bias: Tensor | None
    is_causal: bool
    scale: float

    @classmethod
    def of(cls, seen: TorchMask, query: Tensor, n_k: int, scale: float) -> _Measuring:
        if seen.keep is None:
            return cls(None, seen.is_causal, scale)
        aligns = query.device.type != "cpu" or is_known(n_k)  # the CPU needs none, and an open size has none
        keep = F.pad(seen.keep, (0, -n_k % ALIGNED)) if aligns else seen.keep
        bias = torch.zeros((), dtype=query.dtype, device=query.device).masked_fill(~keep, -torch.inf)[..., :n_k]
        return cls(bias.expand(-1, -1, query.shape[-2], -1), False, scale)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weighted mean of the values and the log-sum-exp of every row."""
        out, logsumexp = KERNELS[q.device.type](q, k, v, self)
        return out[..., : v.shape[-1]], logsumexp

    def measure(self, q: Tensor, k: Tensor, n_keys: Rows) -> RowStats:
        """Statistics with their gradients; largest and smallest logit stay unknown (NaN)."""
        expected_key, logsumexp = self(q, k, k)
        if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad):
            carrier = self.scale * (q * self(q.detach(), k.detach(), k)[0]).sum(-1)
            logsumexp = logsumexp.detach() + carrier - carrier.detach()
        mean = self.scale * (q * expected_key).sum(-1)
        sees = n_keys > 0
        unknown = torch.full_like(mean, torch.nan)
        return RowStats(
            n_keys, unknown, unknown, torch.where(sees, logsumexp, -torch.inf), torch.where(sees, mean, 0.0)
        )


def _by_flash(q: Tensor, k: Tensor, v: Tensor, call: _Measuring) -> tuple[Tensor, Tensor]:
    """The CPU's: grouped keys, one head size."""
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, logsumexp = attend(*pad_widths(q, k, v), 0.0, call.is_causal, attn_mask=call.bias, scale=call.scale)
    return out, logsumexp


def _by_efficient(q: Tensor, k: Tensor, v: Tensor, call: _Measuring) -> tuple[Tensor, Tensor]:
    """CUDA's: as many keys as queries, aligned head sizes, float32; its log-sum-exp has padded rows."""
    padded = pad_widths(q, repeat_heads(k, q), repeat_heads(v, q), multiple=ALIGNED)
    q, k, v = (_align(tensor) for tensor in padded)
    bias = None if call.bias is None else call.bias.expand(*q.shape[:2], -1, -1)
    attend = torch.ops.aten._scaled_dot_product_efficient_attention
    out, logsumexp, _, _ = attend(q, k, v, bias, True, 0.0, call.is_causal, scale=call.scale)
    return out, logsumexp[..., : q.shape[-2]]


def _align(tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy where its rows do not begin at multiples the kernel can load from."""
    *steps, last = tensor.stride()
    aligned = last == 1 and all(step % ALIGNED == 0 for step in (*steps, tensor.storage_offset()))
    return tensor if aligned else tensor.clone(memory_format=torch.contiguous_format)


KERNELS = {"cpu": _by_flash, "cuda": _by_efficient}
"""Type of device → the kernel of torch's that tells the log-sum-exp there."""

implementation = FusedCalls()
