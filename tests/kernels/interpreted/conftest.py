"""The Triton kernels in triton's interpreter, on CPU tensors, with small tiles. `tests/kernels/test_triton.py` runs it.

The interpreter is chosen when the kernels are read, so these tests need a process of their own with TRITON_INTERPRET=1;
in any other they are not collected.
"""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]


def spare_the_interpreter():
    """Leave out what it does again at every operation, which takes longer than the arithmetic.

    It prepares the language at every call of every helper, makes a table of dtypes to look one up, and computes whole
    numbers twice to see that they do not overflow.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda fn: interpreter._LangPatchScope()
    search, known = interpreter._get_np_dtype, {}

    def find_dtype(dtype):
        name = str(dtype.scalar)
        if name not in known:
            known[name] = search(dtype)
        return known[name]

    interpreter._get_np_dtype = find_dtype
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)


if INTERPRETED:
    spare_the_interpreter()


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Several tiles at small sizes."""
    from agreement import set_tiles

    set_tiles(monkeypatch, 16, 16)
