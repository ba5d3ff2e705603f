import pytest
import torch
from torch import Generator

from strop.studies.networks.fast_retriever import FlatParameters, activations, against_items, direction, readout
from strop.studies.networks.retriever import Retriever, RetrieverConfig
from strop.studies.problems.max_retrieval import MaxRetrieval

CONFIGS = [RetrieverConfig(), RetrieverConfig(scaled=True, gelu="tanh", init="lecun"), RetrieverConfig(4, 3, 8)]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_factorised_form_is_the_same_function(config):
    generator = Generator().manual_seed(1)
    task = MaxRetrieval(config.classes, config.features)
    model = Retriever(config, generator).double()
    batch = task.sample(6, 13, generator)
    items = task.items(batch.values.double(), batch.classes)
    query = batch.query.double()
    p = FlatParameters(config, torch.float64).load(model.state_dict())
    g = activations(p, batch.values.double(), batch.classes, config)
    logits = against_items(direction(p, query, config)[0], g)
    plain = model.logits(items, query)
    constant = plain - logits
    torch.testing.assert_close(constant, constant[:, :1].expand_as(constant), atol=1e-12, rtol=0)
    weights = logits.softmax(-1)
    s = torch.einsum("sn,snw->sw", weights, g)
    torch.testing.assert_close(readout(p, s, config)[0], model(items, query), atol=1e-12, rtol=0)


def test_the_same_seed_gives_the_same_model():
    one, two = (Retriever(RetrieverConfig(), Generator().manual_seed(3)).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_lecun_biases_start_at_zero():
    model = Retriever(RetrieverConfig(init="lecun"), Generator().manual_seed(0))
    assert all(not p.any() for name, p in model.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize("bad", [{"width": 0}, {"gelu": "relu"}, {"init": "zeros"}, {"classes": -1}])
def test_bad_shapes_are_named(bad):
    name = next(iter(bad))
    with pytest.raises(ValueError, match=f"{name} must"):
        RetrieverConfig(**bad)


def test_weights_of_another_shape_are_refused():
    weights = Retriever(RetrieverConfig(width=8)).state_dict()
    with pytest.raises(ValueError, match=r"must have shape \(128, 11\), got shape \(8, 11\)"):
        FlatParameters(RetrieverConfig()).load(weights)
    with pytest.raises(ValueError, match="got nothing"):
        FlatParameters(RetrieverConfig()).load({})
