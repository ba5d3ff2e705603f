"""Gradients of a native call, and the flat operators by which torch.compile sees forward and backward pass as a whole.

What β, a sink or the statistics depend on is torch's business: the backward pass returns the gradients of each row's β
and sink and takes those of its statistics, and autograd does the rest. Second derivatives are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from strop.errors import StateError
from strop.kernels.native.abi import Flow
from strop.kernels.native.call import (
    FIELDS,
    UNASKED,
    Call,
    Results,
    allocate_results,
    broadcast,
    dense_rows,
    execute,
    make_output,
    pointer_to,
    prepare,
)
from strop.kernels.tracing import may_look

TENSORS = 7
"""The fields of a call that are tensors: its first."""


class Flows(NamedTuple):
    """What flows back into the results of a call that can be differentiated; None for nothing."""

    out: Tensor | None = None
    max: Tensor | None = None
    min: Tensor | None = None
    logsumexp: Tensor | None = None
    mean: Tensor | None = None


class Gradients(NamedTuple):
    """Gradients of a call's tensors, empty where not wanted."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor
    beta: Tensor
    sink: Tensor


def call_kernel(call: Call, level: str | None = None) -> Results:
    """Run the kernel, with gradients where `train` says so."""
    if not may_look(call.query):
        return Results(*_operator(*call))
    if not call.train:
        return execute(call, level, None if call.stats else Results(make_output(call), *UNASKED))
    apply: Any = _Attention.apply
    return Results(*apply(*call, level))


def execute_backward(
    call: Call, rows: Tensor, flows: Flows, wanted: Sequence[bool], level: str | None = None
) -> Gradients:
    """Run the backward pass; `wanted` says which of the call's tensors want a gradient."""
    if flows.out is None or call.kind == "stats":  # nothing but statistics
        call, flows = call._replace(kind="stats"), flows._replace(out=None)
    found = allocate_gradients(call, wanted)
    kernel, args, held = prepare(call, allocate_results(call)._replace(rows=rows))
    out = None if flows.out is None else dense_rows(flows.out.to(call.query.dtype))
    fields = [None if flow is None else flow.float().contiguous() for flow in flows[1:]]
    of_bias = broadcast(found.bias, call) if found.bias.numel() else None
    of_value = None if out is None else found.value  # statistics do not depend on values
    filled = [out, *(grad if grad is not None and grad.numel() else None for grad in (*found[:2], of_value)), of_bias]
    pointers = [pointer_to(x) for x in (out, *fields, *filled[1:], *(g if g.numel() else None for g in found[4:]))]
    strides = [() if tensor is None else tensor.stride() for tensor in filled]
    slope = bool(call.coefficients) and call.kind == "softmax" and not call.detached
    kernel.run_backward(args, Flow(*pointers, *strides, slope), level)
    del held  # until here the kernel reads their memory
    return found._replace(key=found.key.to(call.key.dtype), value=found.value.to(call.value.dtype))


def allocate_gradients(call: Call, wanted: Sequence[bool]) -> Gradients:
    """Make room: those of key, value and bias grow in float32, from zero."""
    tensors = (call.query, call.key, call.value, call.keep, call.bias, call.beta, call.sink)
    nothing = call.query.new_empty(0)
    query, key, value, _, bias, beta, sink = (
        nothing if tensor is None or not want else tensor for tensor, want in zip(tensors, wanted, strict=True)
    )
    grown = (x.new_zeros(x.shape, dtype=torch.float32) for x in (key, value, bias, beta, sink))
    return Gradients(query.new_zeros(query.shape), *grown)


class _Attention(torch.autograd.Function):
    """The operator below without its detours: on a small input they would cost as much as the kernel."""

    @staticmethod
    def forward(ctx: Any, *fields: Any) -> tuple[Tensor, ...]:
        results = execute(Call(*fields[:-1]), fields[-1])
        _save(ctx, fields[:-1], results)
        ctx.level = fields[-1]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *flows: Tensor | None) -> Any:
        if torch.is_grad_enabled():  # create_graph: the result would carry no gradient of its own, silently
            raise StateError("The native kernel has no second derivatives. Use impl='streaming' for them.")
        return (*_differentiate(ctx, *flows), None)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    results = Results(*output)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(results.n_keys, results.rows)
    ctx.save_for_backward(*inputs[:TENSORS], results.rows)
    ctx.numbers = inputs[TENSORS:]
    ctx.level = None


def _differentiate(ctx: Any, out: Tensor | None, _: Tensor | None, *stats: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, rows = ctx.saved_tensors  # once: a checkpoint unpacks them a single time
    wanted = [bool(want) for want in ctx.needs_input_grad[:TENSORS]]
    nothing = [None] * len(ctx.numbers)
    flows = Flows(out, *stats[:4])
    if all(flow is None for flow in flows):
        return (*[None] * TENSORS, *nothing)
    call = Call(*tensors, *ctx.numbers)
    looks = may_look(call.query) and not any(map(_is_batch, flows))
    found = (
        execute_backward(call, rows, flows, wanted, ctx.level)
        if looks
        else Gradients(*_backward(*call, rows, *flows, wanted))
    )
    grads = (*found[:3], None, *found[3:])
    return (*(grad if want else None for grad, want in zip(grads, wanted, strict=True)), *nothing)


def _is_batch(flow: Tensor | None) -> bool:  # torch.autograd.grad(is_grads_batched=True)
    return flow is not None and torch._C._functorch.is_legacy_batchedtensor(flow)


def _split(flat: Sequence[Any]) -> tuple[Call, Tensor, Flows, list[bool]]:
    *fields, rows = flat[:-6]
    return Call(*fields), rows, Flows(*flat[-6:-1]), flat[-1]


def _make_cast_gradients(*flat: Any) -> Gradients:
    call, _, _, wanted = _split(flat)
    found = allocate_gradients(call, wanted)
    return found._replace(key=found.key.to(call.key.dtype), value=found.value.to(call.value.dtype))


_operator = torch.library.custom_op(
    "strop::native_attention",
    lambda *fields: execute(Call(*fields)),
    mutates_args=(),
    device_types="cpu",
    schema=f"({FIELDS}) -> (Tensor out, Tensor n_keys, Tensor max, Tensor min, Tensor logsumexp, Tensor mean,"
    " Tensor rows)",
)
_operator.register_fake(lambda *fields: allocate_results(Call(*fields)))
_operator.register_autograd(_differentiate, setup_context=_save)

_backward = torch.library.custom_op(
    "strop::native_attention_backward",
    lambda *flat: execute_backward(*_split(flat)),
    mutates_args=(),
    device_types="cpu",
    schema=f"({FIELDS}, Tensor rows, Tensor? d_out, Tensor? d_max, Tensor? d_min, Tensor? d_logsumexp, Tensor? d_mean,"
    " bool[] wanted) -> (Tensor query, Tensor key, Tensor value, Tensor bias, Tensor beta, Tensor sink)",
)
_backward.register_fake(_make_cast_gradients)
