"""What the code of a module's class says of its attention, read without running it.

A class is known by the names that its methods use, and the functions that they call, two calls deep:

    transformers   ALL_ATTENTION_FUNCTIONS: transformers' attention interface
    torch          scaled_dot_product_attention or multi_head_attention_forward: torch's own functions
    written out    a softmax and a product of matrices, in a class called attention or that speaks of queries and keys
    kernel         a call of another library's attention, such as flash_attn_func
    other          called attention, or a mixer of the recurrent kind, without any of these: nothing to sharpen

A class that only contains attention is none of these. Softmaxes of routers, classifiers and samplers have no product,
or no queries and keys.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any, Literal

from torch import nn

Way = Literal["transformers", "torch", "written out", "kernel", "other"]

_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_TORCH = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})
_KERNELS = re.compile(r"_?flash_att\w+|flex_attention|memory_efficient_attention|sageattn\w*|natten\w*")
_SOFTMAXES = frozenset({"softmax", "Softmax", "XSoftmax", "logsumexp"})
_PRODUCTS = frozenset({"matmul", "bmm", "einsum", "baddbmm", "MatMulWrapper"})
_QUERY = re.compile(r"q|qs|qkv|w?qkv?_proj|query|queries|query_\w+|q_\w+", re.IGNORECASE)
_KEY = re.compile(r"k|ks|qkv|w?q?kv?_proj|key|keys|key_(states|layer|proj|value)\w*|k_\w+", re.IGNORECASE)
_CALLED_ATTENTION = re.compile(r"Att(n|ention)(?!al)", re.IGNORECASE)
_CALLED_MIXER = re.compile(r"(Mamba\d?(Mixer|Layer)|DeltaNet|ShortConv(olution)?|RecurrentBlock|Retention|Hyena)$")
_PART = re.compile(r"(Output|Loss|Projection|Structure|Bias|MLP|Norm|AdapterLayer|Indexer)$")
"""Ends of the names of attention's parts, which are no attention themselves; an indexer only chooses keys."""

DEPTH = 2
"""How many calls deep functions are followed."""


@dataclass(frozen=True)
class Reading:
    """The names that a class's code uses, its own variables, and whether it multiplies by `@`."""

    names: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    multiplies: bool = False

    def __or__(self, other: Reading) -> Reading:
        return Reading(self.names | other.names, self.variables | other.variables, self.multiplies or other.multiplies)

    @property
    def writes_attention(self) -> bool:
        """Whether there is a softmax and a product of matrices."""
        return bool(self.names & _SOFTMAXES) and (self.multiplies or bool(self.names & _PRODUCTS))

    @property
    def has_queries_and_keys(self) -> bool:
        """Whether queries and keys are spoken of."""
        words = self.names | self.variables
        return any(map(_QUERY.fullmatch, words)) and any(map(_KEY.fullmatch, words))


def find_way(module: nn.Module) -> Way | None:
    """Say how a module attends, by its class; None for a module that does not."""
    kind: type = type(module)
    timm = isinstance(getattr(module, "fused_attn", None), bool)
    return "torch" if timm or isinstance(module, nn.MultiheadAttention) else find_way_of(kind)


@cache
def find_way_of(kind: type) -> Way | None:
    """Say how modules of a class attend."""
    if _is_framework(kind) or _is_torchs(kind):
        return None
    reading = read_class(kind)
    if _INTERFACE in reading.names:
        return "transformers"
    if reading.names & _TORCH:
        return "torch"
    if hasattr(kind, "_supports_sdpa") or _PART.search(kind.__name__):
        return None  # a whole model, or a part of attention
    named = bool(_CALLED_ATTENTION.search(kind.__name__))
    if reading.writes_attention and (named or reading.has_queries_and_keys):
        return "written out"
    if any(map(_KERNELS.fullmatch, reading.names)):
        return "kernel"
    return "other" if named or _CALLED_MIXER.search(kind.__name__) else None


@cache
def read_class(kind: type) -> Reading:
    """Read every method of a class and its bases, framework apart."""
    own = [base for base in kind.__mro__ if base not in nn.Module.__mro__ and not _is_framework(base)]
    found = Reading()
    for method in (method for base in own for method in vars(base).values()):
        found |= _read(method, DEPTH, set())
    return found


def _is_framework(kind: Any) -> bool:
    """Whether a class or function is of transformers' common code, which speaks of attention without being it."""
    home = kind.__module__ or ""
    return home.startswith("transformers.") and not home.startswith("transformers.models.")


def _is_torchs(kind: Any) -> bool:
    return (kind.__module__ or "").startswith("torch.")


def _read(method: Any, depth: int, seen: set[FunctionType]) -> Reading:
    method = method.__func__ if isinstance(method, staticmethod | classmethod) else method
    plain: object = inspect.unwrap(method) if callable(method) else None
    if not isinstance(plain, FunctionType) or plain in seen:
        return Reading()
    seen.add(plain)
    found = Reading()
    for code in _codes(plain.__code__):
        found |= _read_code(code)
    called = [plain.__globals__.get(name) for name in found.names] if depth else []
    for function in called:
        if isinstance(function, FunctionType) and not _is_framework(function) and not _is_torchs(function):
            found |= _read(function, depth - 1, seen)
    return found


def _read_code(code: CodeType) -> Reading:
    steps = dis.get_instructions(code)
    multiplies = any(step.opname == "BINARY_OP" and step.argrepr in ("@", "@=") for step in steps)
    return Reading(frozenset(code.co_names), frozenset(code.co_varnames + code.co_cellvars), multiplies)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
