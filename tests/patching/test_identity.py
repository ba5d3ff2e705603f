"""Which model this is: the digest sees any change, the fingerprint any change worth the name, neither the dtype's."""

import pytest
import tiny
import torch

from strop.patching.identity import digest_weights, dtype_of, fingerprint, heads_of


@pytest.mark.parametrize("place", [0, 517, -1])
def test_a_digest_sees_one_changed_element(place):
    model = tiny.model()
    before = digest_weights(model)
    assert digest_weights(tiny.model()) == before
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.view(-1)[place] += 1e-6
    assert digest_weights(model) != before


def test_a_fingerprint_is_the_same_in_half_precision_and_another_for_another_model():
    model = tiny.model()
    before = fingerprint(model)
    assert fingerprint(tiny.model(seed=1)) != before
    assert fingerprint(model.bfloat16()) == before
    assert dtype_of(model) == "bfloat16"
    assert digest_weights(model) != digest_weights(tiny.model())


def test_heads_are_counted_in_the_models_order():
    assert heads_of(tiny.model()) == {"model.layers.0.self_attn": 4, "model.layers.1.self_attn": 4}


def test_a_fine_tune_is_another_model():
    model = tiny.model()
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.mul_(1.01)
    assert fingerprint(model) != fingerprint(tiny.model())
