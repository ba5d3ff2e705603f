"""The one meaning of a mask: which keys a row may see, and what is added to its logits.

torch's arguments come in four forms: a bool mask (True = may look), an additive mask (−inf hides), `is_causal` (row i
sees keys j ≤ i, the upper-left triangle) and `torch.nn.attention.bias` objects (upper-left or lower-right triangle).
All become a `Mask`. A `LazyMask` is a mask that exists a few rows at a time, for inputs whose n_q × n_k would not fit.

Additive values at or below half the lowest number of their dtype hide a key just as −inf does (`hides`): that is how
models write "never" where −inf is not wanted, and such a key is not counted in n_keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeGuard

import torch
from torch import Tensor

from strop._checks import require
from strop._types import Keep, Rows
from strop.errors import ArgumentError, ArgumentTypeError
from strop.kernels.tracing import may_look


def hides(additive: Tensor) -> Tensor:
    """Where an additive mask means "never": at −inf, and at half the lowest number or below. NaN does not hide."""
    return additive <= torch.finfo(additive.dtype).min / 2


@dataclass(frozen=True, eq=False)
class Mask:
    """What each query row may see, and what is added to its logits.

    A row sees a key where `keep` and `diagonal` both allow it. `Mask.of` reads a bool or an additive mask, `Mask.read`
    all the forms that torch's function takes.

    Args:
        keep: bool, broadcastable to [*batch, n_q, n_k], True = may look. None: every key.
        bias: Finite numbers that are added to the logits, 0 at hidden keys. None: nothing.
        diagonal: Row i sees keys j ≤ i + diagonal. None: no triangle.

    Examples:
        >>> import torch
        >>> from strop.kernels import Mask
        >>> Mask(diagonal=0).n_keys(n_q=3, n_k=5, device=torch.device("cpu"))  # causal
        tensor([1, 2, 3])
        >>> mask = Mask.of(torch.tensor([[0.5, 0.0, -torch.inf]]))
        >>> mask.keep, mask.bias
        (tensor([[ True,  True, False]]), tensor([[0.5000, 0.0000, 0.0000]]))
    """

    keep: Keep | None = None
    bias: Tensor | None = None
    diagonal: int | None = None

    @classmethod
    def read(cls, attn_mask: Tensor | None, is_causal: bool, query: Tensor, n_k: int) -> Mask:
        """Read torch's arguments for these queries and keys.

        Args:
            attn_mask: A bool or additive mask, an object of `torch.nn.attention.bias`, or None.
            is_causal: Row i sees keys 0 … i.
            query: [*batch, n_q, d].
            n_k: Number of keys; over ranks, of the whole sequence.
        """
        n_q = query.shape[-2]
        if is_causal:
            require(
                attn_mask is None,
                "attn_mask must be None when is_causal is set",
                "both",
                "Put one into the other",
            )
            return cls(diagonal=0)
        if attn_mask is None:
            return cls()
        if is_causal_bias(attn_mask):
            sizes = (attn_mask.seq_len_q, attn_mask.seq_len_kv)
            if sizes != (n_q, n_k):
                raise ArgumentError(f"attn_mask must be made for {n_q} queries and {n_k} keys, got {sizes}.")
            return cls(diagonal=n_k - n_q if attn_mask.variant.name == "LOWER_RIGHT" else 0)
        _check_shape(attn_mask, query, n_k)
        return cls.of(attn_mask)

    @classmethod
    def of(cls, mask: Tensor) -> Mask:
        """Read a bool or an additive mask."""
        if mask.dtype == torch.bool:
            return cls(keep=mask)
        require(mask.is_floating_point(), "attn_mask must be bool or floating point", mask.dtype,
                "A mask of 0 and 1 becomes bool by mask.bool()", ArgumentTypeError)  # fmt: skip
        keep = ~hides(mask)
        return cls(keep=keep, bias=torch.where(keep, mask, 0.0))

    @property
    def adds(self) -> bool:
        """Whether it adds something to visible logits, as a position bias does; unseen numbers are taken to."""
        return self.bias is not None and (not may_look(self.bias) or bool((self.bias != 0).any()))

    def add_bias(self, bias: Tensor | None) -> Mask:
        """Return this mask with an additive bias on top, which may hide keys as well."""
        if bias is None:
            return self
        more = Mask.of(bias)
        keep = more.keep if self.keep is None or more.keep is None else self.keep & more.keep
        total = more.bias if self.bias is None or more.bias is None else self.bias + more.bias
        return Mask(keep, total, self.diagonal)

    def narrow(self, keep: Keep) -> Mask:
        """Return this mask where `keep` allows it too."""
        return Mask(keep if self.keep is None else self.keep & keep, self.bias, self.diagonal)

    def rows(self, start: int, stop: int) -> Mask:
        """Return the mask of query rows start … stop − 1."""
        return Mask(
            _slice_rows(self.keep, start, stop),
            _slice_rows(self.bias, start, stop),
            None if self.diagonal is None else self.diagonal + start,
        )

    def pick(self, rows: Tensor, n_k: int) -> Mask:
        """Return the mask of some query rows [R], given by their indices, for n_k keys."""
        keep = _pick_rows(self.keep, rows)
        if self.diagonal is not None:
            below = torch.arange(n_k, device=rows.device) <= rows[:, None] + self.diagonal
            keep = below if keep is None else keep & below
        return Mask(keep, _pick_rows(self.bias, rows))

    def keys(self, keys: slice) -> Mask:
        """Return the mask of some keys, which no triangle bounds."""
        require(self.diagonal is None, "diagonal must be None to take some keys", self.diagonal)
        keep, bias = (table if table is None else table[..., keys] for table in (self.keep, self.bias))
        return Mask(keep, bias)

    def dense(self, n_q: int, n_k: int, device: torch.device) -> Keep | None:
        """Return one bool mask of all that is hidden, broadcastable to [*batch, n_q, n_k]; None where nothing is."""
        if self.diagonal is None:
            return self.keep
        triangle = torch.ones(n_q, n_k, dtype=torch.bool, device=device).tril(self.diagonal)
        return triangle if self.keep is None else self.keep & triangle

    def n_keys(self, n_q: int, n_k: int, device: torch.device) -> Rows:
        """Return how many keys each row may see, broadcastable to [*batch, n_q]."""
        if self.keep is not None:
            keep = self.dense(n_q, n_k, device)
            assert keep is not None
            return keep.expand(*keep.shape[:-1], n_k).sum(-1)
        if self.diagonal is None:
            return torch.full((n_q,), n_k, device=device)
        return (torch.arange(n_q, device=device) + self.diagonal + 1).clamp(0, n_k)

    def first_keys(self) -> Tensor:
        """Return the first key that anything in each batch entry may see, [B] or [1]: past padding on the left."""
        if self.keep is None:
            return torch.zeros(1, dtype=torch.long)
        keep = self.keep[(None,) * (4 - self.keep.ndim)]
        return keep.flatten(1, -2).any(1).long().argmax(-1)


PLACES = 64
"""Rows of a lazy mask, evenly spaced, that are asked for their first key: closer than models' windows are wide."""

CHUNK = 32
"""Rows of a lazy mask, out of those picked, that are built at a time."""


SPAN = 256
"""Rows of a lazy mask that are attended at a time."""


@dataclass(frozen=True, eq=False)
class LazyMask(Mask):
    """A mask that exists one block of rows at a time, for inputs whose n_q × n_k would not fit.

    Args:
        keep: Not used: `build` says what may be seen.
        bias: Numbers that are added to the logits. None: nothing.
        diagonal: Not used either.
        build: Makes rows start … stop − 1 of a bool mask: `build(start, stop)` is [B, 1, stop − start, n_k].
        n_q: Number of query rows.

    Examples:
        >>> import torch
        >>> from strop.kernels import LazyMask
        >>> def window(start, stop, n=100_000):  # each row sees itself and the three keys before it
        ...     behind = torch.arange(start, stop)[:, None] - torch.arange(n)
        ...     return ((behind >= 0) & (behind < 4))[None, None]
        >>> rows = LazyMask(build=window, n_q=100_000).rows(5000, 5002)
        >>> rows.keep.shape, rows.n_keys(2, 100_000, torch.device("cpu"))
        (torch.Size([1, 1, 2, 100000]), tensor([[[4, 4]]]))
    """

    build: Callable[[int, int], Keep] = field(kw_only=True)
    n_q: int = field(kw_only=True)

    def add_bias(self, bias: Tensor | None) -> Mask:
        """Return this mask with an additive bias on top."""
        return self if bias is None else replace(self, bias=bias if self.bias is None else self.bias + bias)

    def narrow(self, keep: Keep) -> Mask:
        """Return this mask where `keep` allows it too."""
        build = self.build
        return replace(self, build=lambda start, stop: build(start, stop) & keep[..., start:stop, :])

    def rows(self, start: int, stop: int) -> Mask:
        """Build the mask of query rows start … stop − 1."""
        return Mask(self.build(start, stop)).add_bias(_slice_rows(self.bias, start, stop))

    def pick(self, rows: Tensor, n_k: int) -> Mask:
        """Build the mask of some query rows [R], a few at a time."""
        parts = [self.build(int(part[0]), int(part[-1]) + 1)[..., part - part[0], :] for part in rows.split(CHUNK)]
        return Mask(torch.cat(parts, -2)).add_bias(_pick_rows(self.bias, rows))

    def dense(self, n_q: int, n_k: int, device: torch.device) -> Keep | None:
        """Build all of it."""
        return self.rows(0, n_q).dense(n_q, n_k, device)

    def n_keys(self, n_q: int, n_k: int, device: torch.device) -> Rows:
        """Build all of it and count."""
        return self.rows(0, n_q).n_keys(n_q, n_k, device)

    def first_keys(self) -> Tensor:
        """Return the first key that any of PLACES rows may see, [B]."""
        return self._first_keys

    @cached_property
    def spans(self) -> list[tuple[slice, slice]]:
        """Blocks of SPAN rows, and the keys from the first to the last that any row of each may see.

        Found once for all layers that share the mask, so that a device is waited for once.
        """
        starts = range(0, self.n_q, SPAN)
        seen = [self.build(start, min(start + SPAN, self.n_q)).flatten(0, -2).any(0).long() for start in starts]
        ends = torch.stack([torch.stack([one.argmax(), one.flip(0).argmax(), one.sum()]) for one in seen]).tolist()
        n_k = seen[0].shape[0]
        return [
            (slice(start, min(start + SPAN, self.n_q)), slice(first, n_k - last) if any_ else slice(0, 1))
            for start, (first, last, any_) in zip(starts, ends, strict=True)
        ]

    @cached_property
    def _first_keys(self) -> Tensor:
        rows = torch.linspace(0, self.n_q - 1, PLACES).long().tolist()
        return Mask(torch.cat([self.build(row, row + 1) for row in rows], -2)).first_keys()


def is_causal_bias(attn_mask: Any) -> TypeGuard[Any]:
    """Whether a mask is an object of torch.nn.attention.bias.

    Known by name: importing the class for an isinstance would load torch's whole compiler, a second or more.
    """
    return type(attn_mask).__name__ == "CausalBias"


def _slice_rows(table: Tensor | None, start: int, stop: int) -> Tensor | None:
    return table if table is None or table.ndim < 2 or table.shape[-2] == 1 else table[..., start:stop, :]


def _pick_rows(table: Tensor | None, rows: Tensor) -> Tensor | None:
    return table if table is None or table.ndim < 2 or table.shape[-2] == 1 else table[..., rows, :]


def _check_shape(attn_mask: Tensor, query: Tensor, n_k: int) -> None:
    full = (*query.shape[:-1], n_k)
    if attn_mask.ndim > len(full) or any(
        size not in (1, whole) for size, whole in zip(reversed(attn_mask.shape), reversed(full), strict=False)
    ):
        raise ArgumentError(f"attn_mask must broadcast to {full}, got {tuple(attn_mask.shape)}.")
    if attn_mask.device != query.device:
        raise ArgumentError(f"attn_mask must be on {query.device}, got {attn_mask.device}.")
