import pytest
import torch
from torch import Generator

import strop
from strop.normalisers import TRA, Linear, Sigmoid, StickBreaking
from strop.studies.networks.retriever import Retriever, RetrieverConfig
from strop.studies.networks.seeding import build_seeded
from strop.studies.networks.set_reader import SetReader, SetReaderConfig
from strop.studies.problems import ALL_TASKS

WIDTH = 16


class OddKeys(strop.normalisers.Softmax):
    """Leaves the query alone and changes the keys."""

    def prepare_key(self, key):
        return key * torch.linspace(0.0, 1.0, key.shape[-1])


MAKERS = {
    "softmax": strop.normalisers.Softmax,
    "adaptive": strop.normalisers.AdaptiveTemperature,
    "ssmax": lambda: strop.normalisers.SSMax(1, bias=True),
    "qassmax": lambda: strop.normalisers.QASSMax(1, WIDTH),
    "asentmax": lambda: strop.normalisers.ASEntmax(1, WIDTH),
    "entmax": lambda: strop.normalisers.Entmax(1.3, learnable=True),
    "sink": lambda: strop.normalisers.LearnedSink(1),
    "hard": strop.normalisers.Hard,
    "sigmoid": lambda: Sigmoid(8.0, learnable=True),
    "linear": Linear,
    "tra": lambda: TRA(1, WIDTH),
    "stick_breaking": StickBreaking,
    "odd keys": OddKeys,
}


def reader(make=strop.normalisers.Softmax, **settings):
    generator = Generator().manual_seed(1)
    config = SetReaderConfig(**{"width": WIDTH, **settings})
    return SetReader(config, build_seeded(make, Generator().manual_seed(2)), generator)


def problems(size=9):
    return ALL_TASKS["max_retrieval"].sample(6, size, Generator().manual_seed(0))


def test_with_softmax_it_is_the_retriever():
    plain = Retriever(RetrieverConfig(width=WIDTH), Generator().manual_seed(1))
    model, batch = reader(), problems()
    assert all(torch.equal(model.state_dict()[name], value) for name, value in plain.state_dict().items())
    expected = plain(batch.inputs, batch.query[:, 0])
    torch.testing.assert_close(model(batch.inputs, batch.query), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", MAKERS)
def test_the_start_does_not_depend_on_the_normaliser(name):
    plain, other = reader().state_dict(), reader(MAKERS[name]).state_dict()
    assert all(torch.equal(other[key], value) for key, value in plain.items() if not key.startswith("normaliser"))


@pytest.mark.parametrize("name", MAKERS)
def test_training_and_inference_agree_and_gradients_reach_every_parameter(name):
    model, batch = reader(MAKERS[name]), problems()
    out = model(batch.inputs, batch.query)
    with torch.no_grad():
        torch.testing.assert_close(model(batch.inputs, batch.query), out, atol=1e-5, rtol=1e-4)
    out.square().sum().backward()
    hard = {"query", "to_query", "to_key"} if name == "hard" else set()  # one-hot weights have no gradient
    for key, parameter in model.named_parameters():
        if key.split(".")[0] not in hard:
            assert parameter.grad is not None, key
            assert parameter.grad.isfinite().all()
    learned = [parameter.grad.any() for parameter in model.normaliser.parameters()]
    assert any(learned) or not learned


@pytest.mark.parametrize("name", MAKERS)
def test_the_weights_are_those_of_the_definition(name):
    model, batch = reader(MAKERS[name]), problems()
    with torch.no_grad():  # away from the start, at which many a normaliser does nothing to the query
        for parameter in model.normaliser.parameters():
            parameter.add_(torch.linspace(-1.0, 1.0, parameter.numel() + 1)[1:].view(parameter.shape))
    q = model.to_query(model.query(batch.query))[:, None, None]
    k = model.to_key(model.item(batch.inputs))[:, None]
    q = model.normaliser.prepare_query(q, torch.tensor([9]))
    expected = model.normaliser.weights_of(q, q @ model.normaliser.prepare_key(k).mT)[:, 0, 0]
    weights = model.attention_weights(batch.inputs, batch.query)
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=1e-5)
    stats = model.attention_stats(batch.inputs, batch.query)
    torch.testing.assert_close(stats.top_weight, expected.amax(-1), atol=1e-6, rtol=1e-5)
    entropy = torch.special.entr(expected).sum(-1) if model.normaliser.simplex else torch.full((6,), torch.nan)
    torch.testing.assert_close(stats.entropy, entropy, atol=1e-5, rtol=1e-4, equal_nan=True)
    assert stats.rows.n_keys.tolist() == [9] * 6
    assert not stats.top_weight.requires_grad


def test_the_order_of_the_items_does_not_matter():
    model, batch = reader(), problems()
    turned = model(batch.inputs.flip(1), batch.query)
    torch.testing.assert_close(turned, model(batch.inputs, batch.query), atol=1e-6, rtol=1e-5)


def test_a_norm_after_attention_undoes_a_smaller_output():
    model, batch = reader(norm_after=True), problems()
    before = model(batch.inputs, batch.query)
    with torch.no_grad():
        model.to_value.weight.mul_(0.5)
    torch.testing.assert_close(model(batch.inputs, batch.query), before, atol=1e-2, rtol=1e-2)
    assert not torch.allclose(reader()(batch.inputs, batch.query), before)


def test_queries_have_any_width():
    model, batch = reader(query_features=3), problems()
    assert model(batch.inputs, torch.zeros(6, 3)).shape == (6, 10)
    with pytest.raises(ValueError, match="query_features must be at least 1, got 0"):
        SetReaderConfig(query_features=0)


def test_what_is_built_from_a_generator_is_the_same_and_leaves_the_global_state():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    one, two = (
        build_seeded(lambda: strop.normalisers.QASSMax(1, 4), Generator().manual_seed(5)).state_dict() for _ in range(2)
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert torch.equal(before, torch.random.get_rng_state())
