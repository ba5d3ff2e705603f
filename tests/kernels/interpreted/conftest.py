"""The Triton kernels in triton's interpreter, on CPU tensors, with small tiles. `tests/kernels/test_triton.py` runs it.

The interpreter is chosen when the kernels are read, so these tests need a process of their own with TRITON_INTERPRET=1;
in any other they are not collected.
"""

import os
from concurrent.futures import ThreadPoolExecutor
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


def launch_in_a_thread():
    """Give launches a stack of their own.

    Python maps a new piece of stack where one is full, and unmaps it on return. Deep inside pytest and hypothesis that
    can happen at every call of a helper, and takes as long as all the rest.
    """
    from strop.kernels.triton import launch

    run, thread = launch._launch, ThreadPoolExecutor(1)
    launch._launch = lambda *given, **more: thread.submit(run, *given, **more).result()


def add_up_as_a_card_does():
    """Let the products of an element of `tl.dot` be added in the order of d, whichever operand comes first.

    numpy's order depends on it. Then the second backward kernel, whose tiles lie the other way round, would find other
    logits than the forward pass had, by a rounding error that no sum over a row evens out.
    """
    from triton.runtime import interpreter

    def dot(self, a, b, d, input_precision, max_num_imprecise_acc):
        products = a.data.astype(d.data.dtype)[:, :, None] * b.data.astype(d.data.dtype)[None]
        return interpreter.TensorHandle(products.sum(1) + d.data, d.dtype.scalar)

    interpreter.InterpreterBuilder.create_dot = dot


if INTERPRETED:
    spare_the_interpreter()
    launch_in_a_thread()
    add_up_as_a_card_does()


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Several tiles at small sizes."""
    from agreement import set_tiles

    set_tiles(monkeypatch, 16, 16)
