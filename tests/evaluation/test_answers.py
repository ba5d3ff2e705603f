"""Answers and prose of one model, and of two side by side."""

import pytest
import tiny
import torch

from strop.evaluation.answers import compare_answers, compare_prose, score_prose


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


def test_prose_loss_is_torchs_cross_entropy():
    model, ids = tiny.model(), torch.cat(tiny.prose(2, 20))
    wanted = [torch.nn.functional.cross_entropy(model(row[None]).logits[0, :-1], row[1:]) for row in ids]
    assert score_prose(model, ids) == pytest.approx([float(loss) for loss in wanted], abs=1e-5)
