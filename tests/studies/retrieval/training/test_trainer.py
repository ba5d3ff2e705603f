import pytest
import torch
import torch.nn.functional as F
from torch import Generator

from strop.studies.networks.retriever import Retriever, RetrieverConfig
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.retrieval.training.checkpoint_file import digest
from strop.studies.retrieval.training.trainer import LOG_EVERY, TrainConfig, Trainer

SMALL = TrainConfig(steps=30, batch=16, average_last=10)


def test_the_same_seed_gives_the_same_bytes():
    one, two = Trainer(SMALL), Trainer(SMALL)
    one.run(30)
    two.run(30)
    assert digest(one.state()) == digest(two.state())
    other = Trainer(TrainConfig(seed=1, steps=30, batch=16, average_last=10))
    other.run(30)
    assert digest(one.state()) != digest(other.state())


@pytest.mark.parametrize("stop", [1, 17, 25])
def test_a_state_taken_at_any_step_continues_to_the_same_bytes(stop):
    whole, part, rest = Trainer(SMALL), Trainer(SMALL), Trainer(SMALL)
    whole.run(30)
    part.run(stop)
    rest.load_state({name: tensor.clone() for name, tensor in part.state().items()})
    rest.run(30)
    assert digest(whole.state()) == digest(rest.state())


@pytest.mark.parametrize("decay", ["decoupled", "coupled"])
def test_it_is_the_plain_loop(decay):
    config = TrainConfig(steps=20, batch=16, decay=decay, weight_decay=0.1, model=RetrieverConfig(gelu="tanh"))
    generator = Generator().manual_seed(config.seed)
    model = Retriever(config.model, generator)
    kind = torch.optim.AdamW if decay == "decoupled" else torch.optim.Adam
    optimiser = kind(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    task = MaxRetrieval()
    for _ in range(20):
        size = int(torch.randint(5, 17, (), generator=generator))
        batch = task.sample(16, size, generator)
        optimiser.zero_grad()
        F.cross_entropy(model(task.items(batch.values, batch.classes), batch.query), batch.target).backward()
        optimiser.step()
    trainer = Trainer(config)
    trainer.run(20)
    for name, parameter in model.named_parameters():
        if name == "item.2.bias":  # Adam magnifies the rounding of its near-zero gradient
            continue
        torch.testing.assert_close(trainer.params[name], parameter.detach(), atol=2e-4, rtol=1e-3)


def test_the_average_is_the_mean_of_the_last_weights():
    trainer = Trainer(SMALL)
    seen = []
    for _ in range(30):
        trainer.advance()
        seen.append(trainer.params.vector.double().clone())
    torch.testing.assert_close(trainer.average.double(), torch.stack(seen[-10:]).mean(0), atol=1e-6, rtol=0)


def test_cosine_brings_the_rate_to_zero():
    trainer = Trainer(TrainConfig(steps=50, batch=8, schedule="cosine"))
    trainer.run(50)
    assert trainer.optimiser.param_groups[0]["lr"] < 2e-6


def test_losses_are_noted_and_fall():
    trainer = Trainer(TrainConfig(steps=2 * LOG_EVERY, batch=32))
    ticks = []
    trainer.run(2 * LOG_EVERY, lambda step, loss: ticks.append((step, loss)))
    assert [step for step, _ in ticks] == [LOG_EVERY, 2 * LOG_EVERY]
    assert trainer.losses == [loss for _, loss in ticks]
    assert trainer.losses[1] < 0.5 * trainer.losses[0] < 1.2


def test_a_diverging_run_stops():
    trainer = Trainer(TrainConfig(steps=LOG_EVERY, batch=4, sizes=(2, 2), lr=1e30))
    with pytest.raises(ArithmeticError, match="loss must stay finite, got nan"):
        trainer.run(LOG_EVERY)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"sizes": (0, 16)}, "sizes must satisfy 1 <= low <= high"),
        ({"sizes": (9, 8)}, "sizes must satisfy"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"lr": float("nan")}, "lr must be positive and finite"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"task": MaxRetrieval(12, 13)}, "model must have the task's features and classes"),
        ({"decay": "none"}, "decay must be"),
        ({"schedule": "linear"}, "schedule must be"),
    ],
)
def test_bad_settings_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**bad)
