"""From tensors to the kernels and back: two flat operators, which torch.compile, export and autograd see as a whole.

`call_kernels` is the forward pass and `_backward` its gradients; `launch` runs the kernels of both. What β, a sink or
the statistics depend on is torch's business: the operator returns the gradients of each row's β and sink and takes
those of its log-sum-exp and mean, and autograd does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from strop.errors import StateError
from strop.kernels.triton import launch


class KernelCall(NamedTuple):
    """One call on tensors [B, H, n, d]; keep and bias broadcast to [B, H, n_q, n_k], beta and sink are [B, H, n_q].

    Without a value it measures alone. `coefficients` make β the curve of `EntropyBeta`, else `beta`, else `constant`.
    """

    query: Tensor
    key: Tensor
    value: Tensor | None = None
    keep: Tensor | None = None
    bias: Tensor | None = None
    beta: Tensor | None = None
    sink: Tensor | None = None
    diagonal: int | None = None
    scale: float = 1.0
    softcap: float | None = None
    constant: float = 1.0
    coefficients: Sequence[float] = ()
    threshold: float = 0.0
    hold_at: float = math.inf
    detached: bool = False
    stats: bool = False


_FIELDS = (
    "Tensor query, Tensor key, Tensor? value, Tensor? keep, Tensor? bias, Tensor? beta, Tensor? sink, SymInt? diagonal,"
    " float scale, float? softcap, float constant, float[] coefficients, float threshold, float hold_at, bool detached,"
    " bool stats"
)
"""The fields of `KernelCall`, in their order, in torch's words."""


def call_kernels(call: KernelCall) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output [B, H, n_q, d_v]; of rows what a backward pass needs, their largest and smallest logits, and n_keys."""
    out, rows, extremes, counts = _forward(*call._replace(coefficients=list(call.coefficients)))
    return out, rows, extremes, counts


def _forward_flat(*fields: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return launch.forward(KernelCall(*fields))


def _backward_flat(
    fields: Sequence[Any],
    out: Tensor,
    rows: Tensor,
    d_out: Tensor | None,
    d_rows: Tensor | None,
    all_keys: bool,
    adds: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return launch.backward(KernelCall(*fields), out, rows, d_out, d_rows, all_keys, adds)


_forward = torch.library.custom_op(
    "strop::triton_attention", _forward_flat, mutates_args=(),
    schema=f"({_FIELDS}) -> (Tensor out, Tensor rows, Tensor extremes, Tensor counts)",
)  # fmt: skip
_forward.register_fake(lambda *fields: launch.make_results(KernelCall(*fields)))

_backward = torch.library.custom_op(
    "strop::triton_attention_backward",
    lambda *flat: _backward_flat(flat[:-6], *flat[-6:]),
    mutates_args=(),
    schema=f"({_FIELDS}, Tensor out, Tensor rows, Tensor? d_out, Tensor? d_rows, bool all_keys, bool adds) -> "
    "(Tensor d_query, Tensor d_key, Tensor d_value, Tensor d_bias, Tensor carried)",
)
_backward.register_fake(lambda *flat: launch.make_gradients(KernelCall(*flat[:-6]), flat[-1]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[3])
    ctx.save_for_backward(*inputs[:7], *output[:2])
    ctx.numbers = inputs[7:]


def _differentiate(ctx: Any, d_out: Tensor | None, d_rows: Tensor | None, d_extremes: Tensor | None, _: Any) -> Any:
    if d_extremes is not None:
        raise StateError(
            "The triton kernel has no gradient of a row's largest and smallest logit. Use impl='streaming' for it."
        )
    *tensors, out, rows = ctx.saved_tensors
    nothing = (None,) * (len(tensors) + len(ctx.numbers))
    if d_out is None and d_rows is None:
        return nothing
    wanted = ctx.needs_input_grad
    flows = (out, rows, d_out, d_rows, any(wanted[1:3]) or wanted[4], wanted[4])
    d_query, d_key, d_value, d_bias, carried = _backward(*tensors, *ctx.numbers, *flows)
    found = (d_query, d_key, d_value, None, d_bias.to(tensors[4].dtype) if wanted[4] else None, *carried[2:])
    return (*(grad if want else None for grad, want in zip(found, wanted, strict=False)), *nothing[7:])


_forward.register_autograd(_differentiate, setup_context=_save)
