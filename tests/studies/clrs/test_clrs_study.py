"""The CLRS-Text study in small: every arm runs, the same call continues, bad settings are one line."""

from dataclasses import replace

import pytest
import torch

from strop import attention
from strop.engine import Serial
from strop.errors import ArgumentError
from strop.records import canonical, short_id
from strop.studies.clrs import ClrsStudy, DecoderShape, TokenBudget, read_clrs, run_clrs
from strop.studies.clrs.batches import draw_questions, encode_questions
from strop.studies.clrs.models import open_learner
from strop.studies.clrs.placed import PlacedTemperature, RowChoice
from strop.studies.clrs.text import Vocabulary, find_algorithm
from strop.studies.problems import stream
from strop.studies.problems.task import IGNORE

TINY = ClrsStudy.quick(
    algorithms=("bubble_sort",),
    budget=TokenBudget(steps=3, tokens=128, warmup=1),
    shape=DecoderShape(width=16, layers=1),
    problems=4,
    edge_steps=2,
)


def test_every_arm_runs_and_is_kept(tmp_path):
    told = []
    result = run_clrs(TINY, tmp_path, Serial(), lambda *about: told.append(about))
    assert not result.failures
    assert result.standing == "9 of 9 models tested."
    assert [phase for phase, done, total in told if done == total] == ["training", "trials"]
    sizes = {row["n"]: row["region"] for row in result.records}
    assert sizes == {4: "seen", 5: "seen", 6: "between", 10: "seen", 13: "beyond", 15: "beyond", 20: "beyond"}
    places = {row["place"] for row in result.records}
    assert places == {None, 0, 1, 2, 3}
    assert all(row["entropy"] > 0 for row in result.records if row["place"] is not None and "@" not in row["arm"])
    assert "not better" in result.tables()[2].text()
    assert run_clrs(TINY, tmp_path, Serial(), lambda *about: told.append("again")).records == result.records
    assert "again" not in told
    assert read_clrs(TINY, tmp_path).records == result.records
    page = result.report().read_text()
    assert page.index("Adaptive temperature at inference alone") < page.index("<figure")


def test_drawn_positions_run_and_old_studies_keep_their_addresses(tmp_path):
    study = replace(TINY, shape=replace(TINY.shape, spread=400), arms=("softmax", "softmax>adaptive"), problems=2)
    result = run_clrs(study, tmp_path, Serial())
    assert not result.failures
    assert result.standing == "2 of 2 models tested."
    assert short_id(ClrsStudy()) == "7372145ac166"
    assert canonical(study) != canonical(replace(study, shape=TINY.shape))


def test_bad_settings_are_refused():
    with pytest.raises(ArgumentError, match="spread must not be negative, got -1"):
        DecoderShape(spread=-1)
    with pytest.raises(ArgumentError, match="width must be an even multiple of heads, got 50 for 4 heads"):
        DecoderShape(width=50)
    with pytest.raises(ArgumentError, match="arm must be known, got 'hard'"):
        ClrsStudy(arms=("hard",))
    with pytest.raises(ArgumentError, match="algorithm must be known, got 'bogosort'"):
        ClrsStudy(algorithms=("bogosort",))
    with pytest.raises(ArgumentError, match="nowhere must hold finished runs of this study, got none"):
        read_clrs(TINY, "nowhere")


def test_each_answer_token_is_asked_of_the_token_before_it():
    algorithm = find_algorithm("minimum")
    coder, questions = Vocabulary(algorithm), [algorithm.ask({"key": key}) for key in ([0.5, 0.123], [0.7, 0.7, 0.9])]
    batch = encode_questions(questions, coder)
    for tokens, target, question in zip(batch.tokens, batch.target, questions, strict=True):
        asked = (target != IGNORE).nonzero()[:, 0]
        assert coder.decode(tokens[: asked[0] + 1].tolist()) == question.prompt
        assert coder.decode(target[asked].tolist()) == question.answer
        assert tokens[asked[:-1] + 1].tolist() == target[asked[:-1]].tolist()
    assert questions[1].answer == "0\n\n"  # of equal keys the first


def test_rows_are_chosen_by_place_and_together_they_are_all_rows():
    """Sharpening one kind of row alone equals sharpening all where the others are sharpened to the same."""
    with open_learner(TINY.training("softmax", 1e-3, 0), "adaptive@later") as learner:
        batch = draw_questions(find_algorithm("bubble_sort"), 5, 3, learner.coder, stream("rows"))
        learner.answer(batch)
        later = learner.choice.rows
        chosen = {which: RowChoice(which) for which in ("prompt", "first")}
        for choice in chosen.values():
            choice.look_at(batch)
    assert torch.equal(later, batch.asked & (batch.places > 0))
    assert (later.int() + chosen["prompt"].rows.int() + chosen["first"].rows.int() == 1).all()


def test_a_placed_temperature_is_adaptive_in_its_rows_and_softmax_in_the_others():
    q, k, v = (torch.randn(2, 4, 9, 8, generator=stream(name)) for name in "qkv")
    choice = RowChoice("prompt", torch.rand(2, 9, generator=stream("rows")) < 0.5)
    ways = [
        attention(q, k, v, is_causal=True, normaliser=rule)
        for rule in (PlacedTemperature(choice), "adaptive", "softmax")
    ]
    expected = torch.where(choice.rows[:, None, :, None], ways[1], ways[2])
    torch.testing.assert_close(ways[0], expected)
    assert not torch.equal(ways[1], ways[2])
