"""The page of the CLRS-Text study: verdict first, everything escaped, and it works in a real browser."""

import pytest
from browsing import Visit

from strop.studies.clrs import ClrsResult, ClrsStudy

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
STUDY = ClrsStudy(algorithms=("minimum", "heapsort"), arms=("softmax", "adaptive", "softmax>adaptive"))
SHARES = {"softmax": 4, "adaptive": 6, "softmax>adaptive": 1}


def made(arm, seed, algorithm, n):
    """Rows as a trial writes them: the whole answer, then the digits; adaptive is better, inference alone worse."""
    exact = SHARES[arm] + (seed == 2)
    about = {"arm": arm, "seed": seed, "lr": 0.01, "region": STUDY.region(algorithm, n), "algorithm": algorithm, "n": n}
    rights = "r" + "1" * exact + "0" * (8 - exact)
    whole = {**about, "place": None, "exact": exact / 8, "tokens": 0.5 + exact / 16, "loss": 1.0, "rights": rights}
    looks = {"tokens": 0.75, "entropy": 1.5, "beta": 1.25, "top": 0.5}
    return [whole, *({**about, "place": place, **looks} for place in range(4 if algorithm == "heapsort" else 2))]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    sizes = [(name, n) for name in STUDY.algorithms for n in STUDY.test_sizes(name)]
    models = [(arm, seed) for arm in STUDY.arms for seed in range(3)]
    records = tuple(row for model in models for size in sizes for row in made(*model, *size))
    return ClrsResult(STUDY, tmp_path_factory.mktemp("clrs"), records, {"a run": EVIL})


@pytest.fixture(scope="module")
def page(result):
    return result.report()


def test_the_verdict_comes_first_and_everything_is_escaped(result, page):
    text = page.read_text(encoding="utf-8")
    assert EVIL not in text
    assert text.index("+25.0 points [25.0, 25.0] of exact answers at sizes seen") < text.index("<figure")
    assert "over seeds none told apart; over questions better in minimum, heapsort" in text  # seeds do not vary
    assert "at inference alone, against softmax: −37.5 points" in text
    assert "9 of 9 models tested." in text
    assert (page.parent / "figures" / "exact.png").exists()
    assert (page.parent / "table.csv").read_text().count("\n") == 1 + 6


def test_digits_are_told_apart_by_what_answers_are_made_of(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("numbers of three decimals") == 2 * 4 + 1  # and a row of what sharpening all rows costs
    assert text.count("indices and marks") == 2 * 2 + 1


def test_a_study_without_results_has_a_page_too(tmp_path):
    empty = ClrsResult(STUDY, tmp_path, (), {})
    assert "0 of 9 models tested." in empty.report().read_text()
    assert empty.tables() == []


@pytest.mark.parametrize("width", [390, 1300])
def test_it_fits_its_window_and_asks_for_nothing(browser, page, width):
    visit = Visit(browser, page, viewport={"width": width, "height": 900})
    assert visit.tab.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.tab.locator("aside.note").first.is_visible()
    visit.tab.locator("input.filter").first.fill("heapsort")
    assert visit.tab.locator("table").first.locator("tbody tr:visible").count() == 3
    assert visit.said == []
    assert visit.asked == [page.as_uri()]
    visit.close()
