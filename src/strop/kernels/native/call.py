"""From tensors to the forward pass of the native kernel and back.

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
from strop.kernels.native.abi import KINDS, PLANES, Args, Library, library
from strop.sharpness.gaps import BINS


class Call(NamedTuple):
    """One kernel call on tensors [B, H, n, d]; keep and bias broadcast to [B, H, n_q, n_k].

    beta and sink are [B, H, n_q]. `coefficients` make β the curve of `EntropyBeta`, else `beta`, else `constant`.
    `train` keeps what a backward pass needs.
    """

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
    detached: bool = False
    stats: bool = False
    train: bool = False


FIELDS = (
    "Tensor query, Tensor key, Tensor value, Tensor? keep, Tensor? bias, Tensor? beta, Tensor? sink, SymInt? diagonal,"
    " float scale, float softcap, str kind, float constant, float[] coefficients, float threshold, float hold_at,"
    " bool detached, bool stats, bool train"
)
"""The fields of `Call`, in their order, in torch's words."""


class Results(NamedTuple):
    """Output [B, H, n_q, d_v]; statistics [B, H, n_q] and what a backward pass needs, empty where not asked for."""

    out: Tensor
    n_keys: Tensor
    max: Tensor
    min: Tensor
    logsumexp: Tensor
    mean: Tensor
    rows: Tensor


UNASKED = (torch.empty(0, dtype=torch.int64), *(torch.empty(0) for _ in range(5)))
"""What stands for results that nobody asked for, where nobody can keep or differentiate them."""


def execute(call: Call, level: str | None = None, results: Results | None = None) -> Results:
    """Run the kernel, into room that is there or made."""
    results = allocate_results(call) if results is None else results
    kernel, args, tensors = prepare(call, results)
    kernel.run(args, level)
    del tensors  # until here the kernel reads their memory
    return results


def execute_gaps(call: Call, level: str | None = None) -> tuple[Tensor, Tensor]:
    """Run a statistics pass that counts gaps too: the largest logits [B, H, n_q], and counts [B, H, n_q, BINS]."""
    results = allocate_results(call)
    counts = call.query.new_empty((*call.query.shape[:-1], BINS + 1), dtype=torch.int32)
    kernel, args, tensors = prepare(call, results)
    args.gaps = pointer_to(counts)
    kernel.run(args, level)
    del tensors
    return results.max, counts[..., :BINS]


def prepare(call: Call, results: Results) -> tuple[Library, Args, list[Tensor | None]]:
    """Find the kernel and fill its struct; the tensors are to be held until it is done."""
    kernel = library()
    if not isinstance(kernel, Library):
        raise StateError(f"impl='native' must be loaded, but {kernel}.")
    tensors = [
        dense_rows(call.query), dense_rows(call.key), dense_rows(call.value), results.out,
        broadcast(call.keep, call), broadcast(call.bias, call), call.beta, call.sink,
    ]  # fmt: skip
    rows = [*(results[1:6] if call.stats else [None] * 5), results.rows if call.train else None]
    pointers = [pointer_to(tensor) for tensor in (*tensors, *rows)]
    strides = [() if tensor is None else tensor.stride() for tensor in tensors]
    return kernel, Args(*pointers, *strides, *_sizes(call), *_numbers(call)), tensors


def pointer_to(tensor: Tensor | None) -> int | None:
    """Where a tensor's numbers lie."""
    return None if tensor is None else tensor.data_ptr()


def dense_rows(tensor: Tensor) -> Tensor:
    """The tensor, or a copy whose rows are contiguous."""
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] <= 1 else tensor.contiguous()


def broadcast(table: Tensor | None, call: Call) -> Tensor | None:
    """A mask, a bias or its gradient with steps of 0 where it has a size of 1."""
    return None if table is None else table.expand(*call.query.shape[:-1], call.key.shape[2])


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


def allocate_results(call: Call) -> Results:
    """Make room for what a call returns."""
    rows, like = call.query.shape[:-1], call.query
    asked = rows if call.stats else (0,)
    counts = like.new_empty(asked, dtype=torch.int64)
    top, low, logsumexp, mean = (like.new_empty(asked, dtype=torch.float32) for _ in range(4))
    kept = like.new_empty((PLANES, *rows) if call.train else (0,), dtype=torch.float32)
    return Results(make_output(call), counts, top, low, logsumexp, mean, kept)


def make_output(call: Call) -> Tensor:
    """Make room for the output alone."""
    return call.query.new_empty(*call.query.shape[:-1], call.value.shape[-1] if call.kind != "stats" else 0)
