import pytest

from strop.studies.arena.board import build_board, score_seeds
from strop.studies.arena.report.page import describe_controls
from strop.studies.arena.report.tables import leaderboard


def rows(task, entry, by_seed, sizes=(16, 64, 256), split="test"):
    return [
        {
            "task": task, "entry": entry, "seed": seed, "lr": 1e-3, "split": split, "n": n,
            "accuracy": value, "top_weight": 0.5, "entropy": None, "seconds": 0.1, "train_seconds": 2.0,
            "parameters": 10, "normaliser_parameters": 0,
        }
        for seed, values in enumerate(by_seed)
        for n, value in zip(sizes, values, strict=True)
    ]  # fmt: skip


BASE = [(1.0, 0.50, 0.30), (1.0, 0.52, 0.28), (1.0, 0.51, 0.29)]
SHARP = [(1.0, 0.90, 0.80), (1.0, 0.93, 0.79), (1.0, 0.90, 0.78)]
NOISY = [(1.0, 0.90, 0.80), (1.0, 0.30, 0.10), (1.0, 0.91, 0.79)]


def test_a_score_is_the_mean_beyond_training():
    curves = {"test": {16: [1.0, 1.0], 64: [0.5, 0.6], 256: [0.3, 0.2]}}
    assert score_seeds("max_retrieval", curves) == pytest.approx([0.4, 0.4])
    assert score_seeds("max_retrieval", {"test": {8: [0.9], 16: [0.7]}}) == pytest.approx([0.8])
    both = {"dense": {64: [1.0]}, "sparse": {64: [0.5]}}
    assert score_seeds("max_retrieval", both) == pytest.approx([0.75])


def test_a_verdict_needs_a_significant_test():
    found = build_board(
        rows("max_retrieval", "softmax", BASE)
        + rows("max_retrieval", "sharp", SHARP)
        + rows("max_retrieval", "noisy", NOISY)
    )
    assert found.verdict("max_retrieval", "sharp") == "better"
    assert found.verdict("max_retrieval", "noisy") == "–"
    assert found.verdict("max_retrieval", "softmax") == "–"
    reverse = build_board(
        rows("average", "softmax", SHARP) + rows("average", "sharp", BASE) + rows("average", "noisy", NOISY)
    )
    assert reverse.verdict("average", "sharp") == "worse"
    assert "significantly better than softmax: none; significantly worse: sharp." in describe_controls(reverse)


def test_one_seed_claims_nothing():
    found = build_board(rows("max_retrieval", "softmax", BASE[:1]) + rows("max_retrieval", "sharp", SHARP[:1]))
    assert found.cells["max_retrieval"]["sharp"].p is None
    assert found.verdict("max_retrieval", "sharp") == "–"


def test_entrants_with_other_seeds_are_not_tested_against_softmax():
    found = build_board(rows("max_retrieval", "softmax", BASE) + rows("max_retrieval", "sharp", SHARP[:2]))
    assert found.cells["max_retrieval"]["sharp"].p is None


def test_the_ranking_leaves_controls_out_and_asks_for_every_task():
    records = [
        *rows("max_retrieval", "softmax", BASE),
        *rows("needle", "softmax", BASE),
        *rows("average", "softmax", SHARP),
        *rows("max_retrieval", "sharp", SHARP),
        *rows("needle", "sharp", SHARP),
        *rows("average", "sharp", BASE),
        *rows("max_retrieval", "absent", SHARP),
    ]
    found = build_board(records)
    assert found.entries == ["sharp", "softmax", "absent"]
    assert found.overall("sharp") == pytest.approx(0.85)
    assert found.overall("softmax", control=True) == pytest.approx(0.85)
    assert found.overall("absent") is None
    table = leaderboard(found)
    assert table.rows[2][3] is None
    assert table.best == {(0, 1), (0, 2), (2, 2), (0, 3), (1, 4)}  # two share the second column
