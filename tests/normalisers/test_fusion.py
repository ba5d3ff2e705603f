"""What a normaliser declares to fused kernels. A subclass never inherits a declaration that is no longer true."""

import pytest
import torch

import strop
from strop.normalisers import NAMES, AdaptiveTemperature, Entmax15, Softmax, SSMax, WithSink, find_shared
from strop.normalisers.fusion import ConstantBeta, CountBeta, Dense, EntropyBeta, StatsBeta, Threshold


class _Twice(Softmax):
    def inverse_temperature(self, stats):
        return 2 * super().inverse_temperature(stats)


class _HalfEntropy(AdaptiveTemperature):
    def inverse_temperature(self, stats):
        return 1 + stats.entropy / 2


class _Squared(Softmax):
    def weights(self, logits, keep=None):
        weights = super().weights(logits, keep).square()
        return weights / weights.sum(-1, keepdim=True)


class _Flat(Entmax15):
    def weights(self, logits, keep=None):
        return super().weights(logits / 2, keep)


class _ScaledQuery(Softmax):
    def prepare_query(self, query, n_keys):
        return 3 * query


class _DeclaredAgain(_Twice):
    def inverse_temperature(self, stats):
        return stats.mean.new_full((), 4.0)

    def fusion(self):
        return ConstantBeta(4.0)


@pytest.mark.parametrize(
    ("normaliser", "declared"),
    [
        (Softmax(2.0), ConstantBeta(2.0)),
        (SSMax(), CountBeta()),
        (Entmax15(), Threshold(1.5)),
        (_Twice(), CountBeta()),
        (_HalfEntropy(), StatsBeta()),
        (_Squared(), Dense()),
        (_Flat(), Dense()),
        (_ScaledQuery(), ConstantBeta(1.0)),
        (_DeclaredAgain(), ConstantBeta(4.0)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_declaration_holds_for_the_class_that_makes_it(normaliser, declared, draw):
    """And every implementation that takes it gives what the definition gives."""
    assert normaliser.fusion() == declared
    assert type(normaliser.fusion()) is type(declared)
    tensors = [torch.randn(2, 3, 9, 8, generator=draw) for _ in range(3)]
    expected = strop.attention(*tensors, is_causal=True, normaliser=normaliser, impl="reference")
    for impl in ("auto", "streaming"):
        got = strop.attention(*tensors, is_causal=True, normaliser=normaliser, impl=impl)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_only_a_class_that_changes_the_query_says_so():
    assert _ScaledQuery.changes_query
    assert not Softmax.changes_query
    assert WithSink(_ScaledQuery(), torch.zeros(())).changes_query
    assert not WithSink(Softmax(), torch.zeros(())).changes_query


@pytest.mark.parametrize("beyond", ["paper", "hold"])
@pytest.mark.parametrize("detach", [False, True])
def test_the_declared_curve_is_the_rule_and_its_slope_the_gradient(beyond, detach):
    rule = AdaptiveTemperature(beyond_fit=beyond, detach_beta=detach)
    curve = rule.fusion()
    assert isinstance(curve, EntropyBeta)
    entropy = torch.linspace(0.01, 8.0, 997, dtype=torch.float64, requires_grad=True)
    beta = curve.beta(entropy)
    if detach:
        assert not beta.requires_grad
        assert (curve.slope(entropy.detach()) == 0).all()
        return
    (gradient,) = torch.autograd.grad(beta.sum(), entropy)
    torch.testing.assert_close(curve.slope(entropy.detach()), gradient)
    assert float(gradient.abs().max()) > 0.5


def test_a_name_builds_one_normaliser_however_often_it_is_asked_for():
    assert find_shared("adaptive") is find_shared("adaptive")
    assert all(found.name == name for name, found in NAMES.items())
