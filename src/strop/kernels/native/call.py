"""From tensors to the native kernel and back: one flat operator, which torch.compile sees as a whole.

Tensors are handed over as pointers and strides: broadcast masks keep stride 0, grouped keys are not repeated and a
transposed cache is read where it lies. Only a last dimension that is not contiguous is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from strop.errors import StateError
from strop.kernels.native.abi import KINDS, Args, Library, library
from strop.kernels.tracing import may_look


class Call(NamedTuple):
    """One kernel call on tensors [B, H, n, d]; keep and bias are [B, H, n_q, n_k], beta and sink [B, H, n_q]."""

    query: Tensor
    key: Tensor
    value: Tensor
    keep: Tensor | None = None
    bias: Tensor | None = None
    beta: Tensor | None = None
    sink: Tensor | None = None
    diagonal: int | None = None
    scale: float = 1.0
    softcap: float = 0.0
    kind: str = "softmax"
    constant: float = 1.0
    coefficients: Sequence[float] = ()
    threshold: float = 0.0
    hold_at: float = math.inf
    stats: bool = False

    def run(self, level: str | None = None) -> list[Tensor]:
        """Output, then n_keys, max, min, logsumexp and mean where statistics are asked for."""
        if not may_look(self.query):
            return list(_operator(*self._replace(coefficients=list(self.coefficients))))
        return execute(self, level)


def execute(call: Call, level: str | None = None) -> list[Tensor]:
    """Fill the struct and run."""
    kernel = library()
    if not isinstance(kernel, Library):
        raise StateError(f"impl='native' must be loaded, but {kernel}.")
    out, *stats = results = _results(call)
    tensors = [  # held here until the kernel is done with their memory
        _dense_rows(call.query), _dense_rows(call.key), _dense_rows(call.value),
        out, call.keep, call.bias, call.beta, call.sink,
    ]  # fmt: skip
    pointers: list[int | None] = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    strides = [() if tensor is None else tensor.stride() for tensor in tensors]
    rows: list[int | None] = [field.data_ptr() for field in stats] or [None] * 5
    kernel.run(Args(*pointers, *rows, *strides, *_sizes(call), *_numbers(call)), level)
    return results


def _sizes(call: Call) -> tuple[int, ...]:
    """From `batch` to `diagonal`; the number of threads is set when the kernel runs."""
    batch, heads, n_q, d = call.query.shape
    group = heads // max(1, call.key.shape[1])
    return batch, heads, group, n_q, call.key.shape[2], d, call.value.shape[3], 0, call.diagonal or 0


def _numbers(call: Call) -> tuple[Any, ...]:
    """From `causal` to `hold_at`."""
    beta_from = 2 if call.coefficients else 1 if call.beta is not None else 0
    return (
        call.diagonal is not None, call.query.dtype == torch.bfloat16, KINDS[call.kind], beta_from,
        call.scale, call.softcap, call.constant,
        len(call.coefficients), tuple(call.coefficients), call.threshold, call.hold_at,
    )  # fmt: skip


def _results(call: Call) -> list[Tensor]:
    rows = call.query.shape[:-1]
    out = call.query.new_empty(*rows, call.value.shape[-1] if call.kind != "stats" else 0)
    if not call.stats:
        return [out]
    counts = torch.empty(rows, dtype=torch.int64)
    return [out, counts, *(torch.empty(rows, dtype=torch.float32) for _ in range(4))]


def _dense_rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] <= 1 else tensor.contiguous()


def _execute_flat(*fields: Any) -> list[Tensor]:
    return execute(Call(*fields))


def _make_results(*fields: Any) -> list[Tensor]:
    return _results(Call(*fields))


_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor? keep, Tensor? bias, Tensor? beta, Tensor? sink, SymInt? diagonal,"
    " float scale, float softcap, str kind, float constant, float[] coefficients, float threshold, float hold_at,"
    " bool stats) -> Tensor[]"
)
"""The fields of `Call`, in their order, in torch's words."""

_operator = torch.library.custom_op(
    "strop::native_attention", _execute_flat, mutates_args=(), device_types="cpu", schema=_SCHEMA
)
_operator.register_fake(_make_results)
