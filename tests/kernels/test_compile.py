"""torch.compile gives what eager gives, in one graph."""

import pytest
import torch
from cases import built

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


class Reader(torch.nn.Module):
    """One layer of attention between two projections."""

    def __init__(self, rule, impl):
        super().__init__()
        self.inward, self.outward = torch.nn.Linear(8, 24), torch.nn.Linear(8, 4)
        self.rule, self.impl = rule, impl

    def forward(self, items):
        q, k, v = self.inward(items).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        seen = strop.attention(q, k, v, is_causal=True, normaliser=self.rule, impl=self.impl)
        return self.outward(seen.transpose(1, 2).flatten(-2))


@built
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
@pytest.mark.parametrize("normaliser", ["adaptive", "ssmax", "entmax15"])
def test_a_compiled_model_trains_as_an_eager_one(normaliser, draw):
    """A few steps of the native kernel in one graph: its backward pass is registered, and learns the rule's numbers."""
    torch.compiler.reset()
    items, answers = torch.randn(3, 9, 8, generator=draw), torch.randn(3, 9, 4, generator=draw)
    losses = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = Reader(strop.normalisers.by_name(normaliser), "native")
        run = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        losses.append([])
        for _ in range(4):
            loss = (run(items) - answers).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    assert losses[0][-1] < 0.95 * losses[0][0]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
