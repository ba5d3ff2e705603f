"""The C door of the native kernel, seen from Python: its argument struct, the library and the threads it borrows.

The library is built beside this file when the package is installed; where no compiler was at hand it is absent and
`library()` says so. ctypes releases the GIL for the length of a call.
"""

from __future__ import annotations

import ctypes
import functools
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch

from strop.errors import ArgumentError

ABI_VERSION = 4
LEVELS = ("baseline", "avx2", "avx512")
KINDS = {"softmax": 0, "sparsemax": 1, "entmax15": 2, "stats": 3}
MOST_COEFFICIENTS = 16
PLANES = 5
"""Numbers of each row that the forward pass keeps for a backward pass."""


class Strides(ctypes.Structure):
    """Steps in elements over batch, head, row and column; 0 where a tensor is broadcast."""

    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "row", "col")]


class Args(ctypes.Structure):
    """`strop::Args` of native.h, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "out", "keep", "bias", "beta_rows", "sink")),
        *((name, ctypes.c_void_p) for name in ("n_keys", "max", "min", "logsumexp", "mean", "rows")),
        *((name, Strides) for name in ("qs", "ks", "vs", "os", "keeps", "biass", "betas", "sinks")),
        *(
            (name, ctypes.c_int64)
            for name in ("batch", "heads", "group", "n_q", "n_k", "d", "dv", "threads", "diagonal")
        ),
        *((name, ctypes.c_int32) for name in ("causal", "bf16", "kind", "beta_from")),
        *((name, ctypes.c_float) for name in ("scale", "softcap", "beta")),
        ("n_coefficients", ctypes.c_int32),
        ("coefficients", ctypes.c_double * MOST_COEFFICIENTS),
        ("threshold", ctypes.c_double),
        ("hold_at", ctypes.c_double),
        ("gaps", ctypes.c_void_p),
    ]


class Flow(ctypes.Structure):
    """`strop::Flow` of native.h, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("d_out", "d_max", "d_min", "d_logsumexp", "d_mean")),
        *((name, ctypes.c_void_p) for name in ("d_q", "d_k", "d_v", "d_bias", "d_beta", "d_sink")),
        *((name, Strides) for name in ("d_outs", "d_qs", "d_ks", "d_vs", "d_biass")),
        ("slope", ctypes.c_int32),
    ]


class Library:
    """The loaded kernel, the instruction sets this machine can run and the address of torch's thread team."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._dll = ctypes.CDLL(str(path))
        self._dll.strop_native_abi.restype = ctypes.c_int64
        sizes = ctypes.sizeof(Args) + ctypes.sizeof(Flow)
        expected, found = ABI_VERSION * 100000 + sizes, self._dll.strop_native_abi()
        if found != expected:
            raise OSError(f"{path.name} is of another version ({found}, not {expected}); install the package again")
        self._dll.strop_native_level.restype = ctypes.c_char_p
        self._dll.strop_native_run.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]
        self._dll.strop_native_backward.argtypes = [ctypes.c_void_p, *self._dll.strop_native_run.argtypes]
        self.levels = tuple(name for i, name in enumerate(LEVELS) if self._dll.strop_native_level(i))
        self.team = torch_team()

    def run(self, args: Args, level: str | None = None) -> None:
        """Run one call on as many threads as torch is set to use."""
        args.threads = torch.get_num_threads()
        self._check(self._dll.strop_native_run(ctypes.addressof(args), self._number(level), self.team), level)

    def run_backward(self, args: Args, flow: Flow, level: str | None = None) -> None:
        """Run the backward pass of one call."""
        args.threads = torch.get_num_threads()
        addresses = ctypes.addressof(args), ctypes.addressof(flow)
        self._check(self._dll.strop_native_backward(*addresses, self._number(level), self.team), level)

    def _number(self, level: str | None) -> int:
        return LEVELS.index(level or self.levels[-1])

    def _check(self, status: int, level: str | None) -> None:
        if status == 1:
            raise MemoryError("The native kernel could not allocate its working memory.")
        if status == 2:
            raise ArgumentError(f"level must be one of {self.levels} on this machine, got {level!r}.")


@functools.cache
def torch_team() -> int | None:
    """Address of GOMP_parallel in the OpenMP library that torch itself runs on; None where torch uses another."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    for path in [*sorted(Path(torch.__file__).parent.glob("lib/libgomp*")), Path("libgomp.so.1")]:
        try:
            gomp = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | ctypes.DEFAULT_MODE)
        except OSError:
            continue  # not the one in use
        return ctypes.cast(gomp.GOMP_parallel, ctypes.c_void_p).value
    return None


@functools.cache
def library() -> Library | str:
    """The kernel, or one sentence saying why there is none."""
    here = Path(__file__).parent
    built = [
        here / f"_native{suffix}" for suffix in (*EXTENSION_SUFFIXES, ".so") if (here / f"_native{suffix}").exists()
    ]
    if not built:
        return "the native kernel was not built when the package was installed (no C++ compiler was found)"
    try:
        return Library(built[0])
    except (OSError, AttributeError) as error:
        return f"the native kernel could not be loaded: {error}"
