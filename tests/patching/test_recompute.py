"""Gradient checkpointing: the gradient is that of the forward pass, wherever the backward pass runs."""

from __future__ import annotations

import families
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import checkpoint

from strop.normalisers import Softmax
from strop.patching import observed, sharpened


class Own(nn.Module):
    """A user's module that checkpoints its attention itself."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project, self.reentrant = nn.Linear(8, 24), reentrant

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (3 * self.project(x)).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)

    def forward(self, x: Tensor) -> Tensor:
        if self.reentrant is None:
            return self.attend(x)
        return checkpoint.checkpoint(self.attend, x, use_reentrant=self.reentrant)


def own(reentrant: bool | None) -> tuple[nn.Module, Tensor]:
    return Own(reentrant), torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()


def llama(reentrant: bool | None) -> tuple[nn.Module, Tensor]:
    model = families.fresh("llama").train()
    if reentrant is not None:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        model.enable_input_require_grads()
    return model, families.ids(2, 9)


def loss(model: nn.Module, x: Tensor) -> Tensor:
    out = model(x)
    return (out if isinstance(out, Tensor) else out.logits).square().mean()


def gradients(model: nn.Module) -> list[Tensor]:
    found = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    return [grad for grad in found if grad is not None]


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("make", [own, llama])
def test_the_backward_pass_may_come_after_the_block_or_in_another(make: object, reentrant: bool) -> None:
    plain, x = make(None)
    with sharpened(plain, Softmax(3.0)):
        loss(plain, x).backward()
    expected = gradients(plain)
    model, x = make(reentrant)
    with sharpened(model, Softmax(3.0)):
        inside = loss(model, x)
        inside.backward()
        results = [gradients(model)]
        after, other = loss(model, x), loss(model, x)
    after.backward()
    results.append(gradients(model))
    with sharpened(model, Softmax(0.5)):
        other.backward()
    results.append(gradients(model))
    for result in results:
        torch.testing.assert_close(result, expected)


def test_torch_is_as_before_and_nothing_is_observed_twice() -> None:
    before = checkpoint.CheckpointFunction, checkpoint._checkpoint_without_reentrant_generator
    model, x = own(True)
    with observed(model) as seen, sharpened(model, Softmax(3.0)):
        assert checkpoint.CheckpointFunction is not before[0]
        out = loss(model, x)
    out.backward()
    assert len(seen.calls) == 1
    assert (checkpoint.CheckpointFunction, checkpoint._checkpoint_without_reentrant_generator) == before
    assert type(model) is Own
