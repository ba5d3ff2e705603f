"""A patched model under torch.compile: one graph, another when the rule changes, and the model's own afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import families
import torch
from torch import Tensor

from strop.normalisers import AdaptiveTemperature, Softmax
from strop.patching import sharpened


def test_a_patched_llama_is_one_graph() -> None:
    model, ids, graphs = families.fresh("llama"), families.ids(1, 12), []

    def count(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend=count)

    def logits(which: Any) -> Tensor:
        with torch.no_grad():
            return which(ids, use_cache=False).logits

    plain = logits(compiled)
    torch.testing.assert_close(plain, logits(model))
    for number, rule in enumerate((Softmax(2.0), Softmax(3.0), AdaptiveTemperature()), 2):
        with sharpened(model, rule):
            assert (logits(compiled) - plain).abs().max() > 1e-3
            torch.testing.assert_close(logits(compiled), logits(model))
        assert len(graphs) == number
        assert torch.equal(logits(compiled), plain)
    assert len(graphs) == 4
    with sharpened(compiled, Softmax(2.0)):
        assert (logits(compiled) - plain).abs().max() > 1e-3
