"""How long a judgement will take, from a trial whose times are known."""

import pytest
import tiny

from strop.evaluation import timing
from strop.evaluation.judging import estimate
from strop.evaluation.judging.bench import BenchCell


def test_reading_grows_with_the_square_and_writing_is_shared_by_a_batch(monkeypatch):
    for module in (estimate, timing):
        monkeypatch.setattr(module, "time_tokens", lambda model, rows, n: 0.1 if n == 1 else 1e-3 * n + 1e-6 * n * n)
    cells = [BenchCell("ruler_vt", 1024), BenchCell("ruler_vt", 8192)]
    reading = sum(1e-3 * n + 1e-6 * n * n for n in (1024, 8192))
    writing = estimate.STEPS * 0.1 * (1 / 8 + 1)
    assert estimate.estimate_seconds(tiny.model(), cells, 10) == pytest.approx(10 * (reading + writing))


def test_documents_of_any_length_are_not_guessed():
    assert estimate.estimate_seconds(tiny.model(), [BenchCell("arc_easy", None)], 10) is None


def test_a_model_is_really_timed():
    assert estimate.estimate_seconds(tiny.model(), [BenchCell("ruler_vt", 1024)], 1) > 0
