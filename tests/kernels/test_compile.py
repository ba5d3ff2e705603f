"""torch.compile gives what eager gives, in one graph."""

import pytest
import torch

import strop


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
@pytest.mark.parametrize("impl", ["auto", "reference", "fused_calls", "scaled_query"])
@pytest.mark.parametrize("normaliser", ["adaptive", "entmax15", "llama4"])
def test_compiled_attention_is_eager_attention(impl, normaliser, draw):
    if (impl == "fused_calls" and normaliser == "entmax15") or (impl == "scaled_query") != (normaliser == "llama4"):
        return
    q, k, v = (torch.randn(1, 2, 9, 8, generator=draw) for _ in range(3))
    rule = strop.normalisers.by_name(normaliser)

    def attend(q, k, v):
        return strop.attention(q, k, v, is_causal=True, normaliser=rule, impl=impl)

    torch.compiler.reset()
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    torch.testing.assert_close(compiled(q, k, v), attend(q, k, v))
    expected = torch.autograd.grad(attend(*leaves).sum(), leaves)
    for got, truth in zip(torch.autograd.grad(compiled(*leaves).sum(), leaves), expected, strict=True):
        torch.testing.assert_close(got, truth)
