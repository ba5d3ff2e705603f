"""What a model of the study learns and with what: optimisers, products in bfloat16, low-rank changes, questions."""

from dataclasses import replace

import pytest
import tiny
import torch
from torch import nn

from strop.engine import Serial
from strop.errors import ArgumentError
from strop.studies.clrs import ClrsStudy, LoraShape, TokenBudget, run_clrs
from strop.studies.clrs.batches import draw_questions
from strop.studies.clrs.configs import Lesson
from strop.studies.clrs.fitting import draw_parts, make_optimisers
from strop.studies.clrs.models import multiply_in_bfloat16, open_learner
from strop.studies.clrs.muon import FloatMuon
from strop.studies.clrs.study import LORA
from strop.studies.clrs.text import Vocabulary, find_algorithm
from strop.studies.problems import stream

STUDY = ClrsStudy.quick()


def test_muon_takes_the_matrices_of_layers_and_adamw_the_rest():
    with open_learner(STUDY.training("ssmax", 1e-3, 0)) as learner:
        muon, adamw = make_optimisers(learner.learned, STUDY.budget)
        (plain,) = make_optimisers(learner.learned, replace(STUDY.budget, optimiser="adamw"))
    names = {id(value): name for name, value in learner.learned.items()}
    first, rest = ([names[id(value)] for value in one.param_groups[0]["params"]] for one in (muon, adamw))
    parts = {"to_heads", "out", "mlp.0", "mlp.2"}
    assert {name.removeprefix("layers.0.").removesuffix(".weight") for name in first if ".0." in name[:9]} == parts
    assert {"embedding.weight", "head.weight", "layers.0.smear"} <= set(rest)
    assert any("normaliser" in name for name in rest)
    assert sorted(first + rest) == sorted(learner.learned)
    assert len(plain.param_groups[0]["params"]) == len(learner.learned)


def test_arms_of_a_seed_start_alike_and_see_the_same_questions():
    with (
        open_learner(STUDY.training("softmax", 1e-3, 1)) as one,
        open_learner(STUDY.training("adaptive", 1e-3, 1)) as two,
    ):
        assert all(torch.equal(one.learned[name], two.learned[name]) for name in one.learned)
        lessons = STUDY.training("softmax", 1e-3, 1).lessons
        drawn = [[part.tokens for part in draw_parts(lessons, one.coder, STUDY.budget, stream("t"))] for _ in range(2)]
    assert len(drawn[0]) == 2
    assert all(torch.equal(a, b) for a, b in zip(*drawn, strict=True))
    assert all(400 < part.numel() <= 600 for part in drawn[0])  # half of 1,024 tokens


def test_drawn_positions_are_the_same_in_all_arms_and_change_no_question_of_a_test():
    shape = replace(STUDY.shape, spread=500)
    arms = [replace(STUDY, shape=shape).training(arm, 1e-3, 1) for arm in ("softmax", "adaptive")]
    drawn = []
    for training in arms:
        with open_learner(training) as learner:
            parts = draw_parts(training.lessons, learner.coder, training.budget, stream("t"), learner.spread)
            drawn.append([part.positions for part in parts])
    assert all(torch.equal(one, two) for one, two in zip(*drawn, strict=True))
    batch, plain = (draw_questions(find_algorithm("minimum"), 5, 3, learner.coder, stream("t"), n) for n in (500, 0))
    assert plain.positions is None
    assert torch.equal(batch.tokens, plain.tokens)
    assert torch.equal(batch.part(slice(1, 3)).positions, batch.positions[1:])
    assert torch.equal(learner.answer(batch), learner.model(batch.tokens, batch.asked, batch.positions))
    assert not torch.equal(learner.answer(batch), learner.answer(plain))


def test_float_muon_is_torchs_within_its_rounding():
    for shape in ((8, 24), (24, 8)):
        grads = torch.randn(3, *shape, generator=stream("g"))
        one, two = (nn.Parameter(torch.zeros(shape)) for _ in range(2))
        ways = [torch.optim.Muon([one], weight_decay=0.0, adjust_lr_fn="match_rms_adamw"), FloatMuon([two])]
        for grad in grads:
            one.grad, two.grad = grad.clone(), grad.clone()
            for way in ways:
                way.step()
        assert (one - two).norm() < 0.03 * one.norm()


def test_products_in_bfloat16_are_near_and_an_embedding_that_shares_a_weight_is_left_alone():
    model = nn.Module()
    model.embedding, model.head = nn.Embedding(7, 32), nn.Linear(32, 7, bias=False)
    model.head.weight = model.embedding.weight
    model.requires_grad_(False)
    x = torch.randn(5, 32, generator=stream("x"))
    exact = model.head(x)
    multiply_in_bfloat16(model)
    assert model.embedding.weight.dtype == torch.float32
    assert model.head(x).dtype == torch.float32
    torch.testing.assert_close(model.head(x), exact, rtol=0.02, atol=0.05)
    assert not torch.equal(model.head(x), exact)


def test_a_vocabulary_of_several_algorithms_reads_them_all():
    both = [find_algorithm(name) for name in ("heapsort", "mst_kruskal")]
    coder = Vocabulary(*both)
    for algorithm in both:
        text = algorithm.sample(5, stream("v")).text
        assert coder.decode(coder.encode(text)) == text
    with pytest.raises(ArgumentError, match="text must be a question of these algorithms, got 'b'"):
        coder.encode("bfs:\n")


def test_a_pretrained_model_learns_low_rank_changes_in_every_arm(tmp_path):
    pytest.importorskip("peft")
    shape = LoraShape(str(tiny.save(tmp_path / "model")), rank=2)
    budget = TokenBudget(steps=2, tokens=128, parts=1, warmup=1, optimiser="adamw")
    study = ClrsStudy.lora(
        algorithms=("minimum",),
        shape=shape,
        budget=budget,
        problems=2,
        edge_steps=1,
        arms=(*LORA["arms"], "softmax>adaptive@later"),
    )
    result = run_clrs(study, tmp_path / "runs", Serial())
    assert not result.failures
    assert result.standing == "5 of 5 models tested."
    with open_learner(study.training("softmax", 1e-3, 0)) as learner:
        assert all("lora_" in name for name in learner.learned)
        text = "[0.32 12]\n"  # a token a character
        assert learner.coder.digit_places(learner.coder.encode(text)) == [0, 0, 0, 1, 2, 0, 0, 1, 0, 0]


def test_lessons_and_budgets_are_checked():
    assert Lesson("bfs", (4,)) in ClrsStudy(algorithms=("bfs",), sizes=(4,)).training("softmax", 1e-3, 0).lessons
    with pytest.raises(ArgumentError, match="optimiser must be known, got 'sgd'"):
        TokenBudget(optimiser="sgd")
    with pytest.raises(ArgumentError, match="products must be known, got 'int8'"):
        TokenBudget(products="int8")
