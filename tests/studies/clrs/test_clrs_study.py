"""The CLRS-Text study in small: every arm runs, the same call continues, bad settings are one line."""

import pytest

from strop.engine import Serial
from strop.errors import ArgumentError
from strop.studies.clrs import ClrsStudy, DecoderShape, TokenBudget, read_clrs, run_clrs
from strop.studies.clrs.batches import encode_questions
from strop.studies.clrs.text import Vocabulary, find_algorithm
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
    assert result.standing == "6 of 6 models tested."
    assert [phase for phase, done, total in told if done == total] == ["sweep", "trials"]
    sizes = {row["n"]: row["region"] for row in result.records}
    assert sizes == {4: "seen", 5: "seen", 7: "between", 10: "seen", 13: "beyond", 15: "beyond", 20: "beyond"}
    places = {row["place"] for row in result.records}
    assert places == {None, 0, 1, 2, 3}
    assert all(row["entropy"] > 0 for row in result.records if row["place"] is not None)
    assert "not better" in result.table().text()
    assert run_clrs(TINY, tmp_path, Serial(), lambda *about: told.append("again")).records == result.records
    assert "again" not in told
    assert read_clrs(TINY, tmp_path).records == result.records
    assert result.write_records().exists()


def test_bad_settings_are_refused():
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
