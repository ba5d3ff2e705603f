import pytest
import torch
import torch.nn.functional as F
from torch import Generator

from strop.studies.networks.fast_retriever import FlatParameters
from strop.studies.networks.retriever import Retriever, RetrieverConfig
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.retrieval.training.gradient import Workspace, loss_and_gradient


@pytest.mark.parametrize("n", [1, 2, 13])
@pytest.mark.parametrize(
    "config", [RetrieverConfig(), RetrieverConfig(scaled=True, gelu="tanh"), RetrieverConfig(6, 3, 8)]
)
def test_gradients_are_those_of_autograd_on_the_plain_model(config, n):
    generator = Generator().manual_seed(n)
    task = MaxRetrieval(config.classes, config.features)
    model = Retriever(config, generator).double()
    batch = task.sample(7, n, generator)
    items, query = task.items(batch.values.double(), batch.classes), batch.query.double()
    expected = F.cross_entropy(model(items, query), batch.target)
    expected.backward()
    params, grad = FlatParameters(config, torch.float64).load(model.state_dict()), FlatParameters(config, torch.float64)
    grad.vector.fill_(torch.nan)
    space = Workspace(7 * n + 5, config.width, torch.float64)
    loss = loss_and_gradient(params, grad, space, items, query, batch.target, config)
    torch.testing.assert_close(loss, expected.detach(), atol=1e-13, rtol=0)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(
            grad[name], parameter.grad, atol=1e-13, rtol=1e-9, msg=lambda m, name=name: f"{name}: {m}"
        )
