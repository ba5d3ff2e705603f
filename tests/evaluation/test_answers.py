"""Answers and prose of one model, and of two side by side."""

import pytest
import tiny
import torch

from strop.evaluation.answers import compare_answers, compare_overall, compare_prose, score_prose


def test_gains_and_losses_are_counted():
    rows = [
        {"task": "t", "phrasing": "p", "size": 1, "passage": i, "question": 0, "exact": right, "nats": 1.0}
        for i, right in enumerate([True, True, False, False])
    ]
    after = [{**row, "exact": right, "nats": 0.5} for row, right in zip(rows, [True, False, True, True], strict=True)]
    (found,) = compare_answers(rows, after)
    assert (found["before"], found["after"], found["gains"], found["losses"]) == (0.5, 0.75, 2, 1)
    assert (found["nats_before"], found["nats_after"]) == (1.0, 0.5)
    with pytest.raises(ValueError, match="same prompts"):
        compare_answers(rows, after[:3])
    row = compare_prose(8, [1.0, 2.0], [1.1, 2.3])
    assert row["change"] == pytest.approx(0.2)
    assert row["standard_error"] == pytest.approx(0.1)


def test_phrasings_of_one_passage_count_once_when_all_is_taken_together():
    rows = [
        {
            "task": "t",
            "phrasing": phrasing,
            "size": size,
            "passage": passage,
            "question": 0,
            "exact": False,
            "nats": 1.0,
        }
        for passage, (size, phrasing) in enumerate([(4, "a"), (4, "a"), (4, "b"), (4, "b"), (8, "a"), (8, "a")])
    ]
    found = compare_overall(rows, [{**row, "exact": True} for row in rows])
    assert (found["prompts"], found["gains"], found["after"]) == (6, 6, 1.0)
    assert found["passages"] == 4  # two of size 4 in both phrasings, two of size 8
    assert found["p_mcnemar"] == pytest.approx(2 / 2**6)
    assert found["p_passages"] == pytest.approx(2 / 2**4)


def test_prose_loss_is_torchs_cross_entropy():
    model, ids = tiny.model(), torch.cat(tiny.prose(2, 20))
    wanted = [torch.nn.functional.cross_entropy(model(row[None]).logits[0, :-1], row[1:]) for row in ids]
    assert score_prose(model, ids) == pytest.approx([float(loss) for loss in wanted], abs=1e-5)
