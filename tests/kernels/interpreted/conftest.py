"""The Triton kernels in triton's interpreter, on CPU tensors, with small tiles. `tests/kernels/test_triton.py` runs it.

The interpreter is chosen when the kernels are read, so these tests need a process of their own with TRITON_INTERPRET=1;
in any other they are not collected.
"""

import os
from types import SimpleNamespace

import pytest

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]


def prepare_the_language_once():
    """The interpreter does it again at every call of every helper, which takes longer than the arithmetic."""
    import triton.language as tl
    from triton.runtime import interpreter

    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda fn: interpreter._LangPatchScope()


if INTERPRETED:
    prepare_the_language_once()


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Several tiles at small sizes."""
    from agreement import set_tiles

    set_tiles(monkeypatch, 16, 16)
