"""The probe's report: what is in it, and that it works in a real browser (skipped, with the reason, without one)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit

from strop.probing.report import make_probe_page, pick_lines, tabulate_heads
from strop.records import Record

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
KINDS = ("sharp", "dispersing", "local", "sink")


def records() -> list[Record]:
    """Three layers of four heads; a head's top weight falls as n^(−layer/4 − head/20)."""
    return [
        {
            "n": n, "layer": layer, "name": f"layers.{layer}.{EVIL}", "head": head, "n_keys": 0.94 * n,
            "entropy": 1.0 + layer, "top_weight": (n / 32) ** (-layer / 4 - head / 20), "spread": 5.0 + head,
            "first_weight": 0.1 * head,
            "recent_weight": math.nan if head == 3 else 0.2,
        }
        for n in (64, 128, 256) for layer in range(3) for head in range(4)
    ]  # fmt: skip


def heads() -> list[Record]:
    return [
        {
            **record, "class": KINDS[int(str(record["head"]))],
            "slope": -int(str(record["layer"])) / 4 - int(str(record["head"])) / 20,
            "effective_keys": 3.0, "spread_max": 9.0, "spread_bound": None, "position": 0.5, "entropy_slope": 0.1,
            "horizon": math.inf if record["layer"] == 0 else 100 * (int(str(record["head"])) + 1), "horizon_best": 1e9,
            "horizon_bound": None, "blunt_from": None,
        }
        for record in records() if record["n"] == 256
    ]  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    said = (f"Verdict {EVIL}.", f"One sentence {EVIL}.", f"Advice {EVIL}:", f"strop calibrate {EVIL}")
    make_probe_page(heads(), records(), said, {"model": f"tiny {EVIL}"}).write(path)
    return path


def test_everything_is_escaped(report: Path) -> None:
    html = report.read_text()
    assert "<img" not in html
    assert "<script>alert" not in html
    assert "tiny &lt;img src=x" in html
    assert html.count("Verdict &lt;img") == 1


def test_the_table_begins_with_the_steepest_slope() -> None:
    assert [row[0] for row in tabulate_heads(heads()).rows[:2]] == ["L2 H3", "L2 H2"]


def test_three_striking_lines() -> None:
    lines = pick_lines(heads(), "A sentence.")
    assert lines[0] == "A sentence."
    assert "layer 2 head 3, slope −0.65" in lines[1]
    assert "layer 1 head 0 cannot put half its weight on one token beyond 100 tokens" in lines[2]


def test_map_click_keys_sort_and_filter(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    tab = visit.tab
    assert tab.locator("#map button").count() == 12
    assert tab.locator("#head h3").inner_text() == "Layer 2, head 3"  # the steepest is shown first
    tab.locator('#map button[data-place="1.2"]').click()
    assert tab.locator("#head h3").inner_text() == "Layer 1, head 2"
    assert tab.locator("#head svg").count() == 3
    assert tab.locator("#head circle").count() == 3 + 3 + 9
    assert "NaN" not in tab.locator("#head").inner_html()
    assert tab.locator('#map button[aria-pressed="true"]').get_attribute("data-place") == "1.2"
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#head h3").inner_text() == "Layer 1, head 3"
    tab.get_by_role("button", name="spread δ").click()
    spreads = tab.locator("#every-head tbody tr td:nth-child(7)").all_inner_texts()
    assert spreads == sorted(spreads, key=float, reverse=True)
    tab.locator("input.filter").fill("sink l1")
    assert tab.locator("#every-head tbody tr:visible").count() == 1
    tab.locator("#every-head tbody tr:visible").click()
    assert tab.locator("#head h3").inner_text() == "Layer 1, head 3"
    assert visit.said == []
    assert visit.asked == [report.as_uri()]
    visit.close()


def test_colours_follow_the_metric(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    background = "element => getComputedStyle(element).backgroundColor"
    cell = visit.tab.locator('#map button[data-place="2.1"]')
    colours = []
    for metric in ("slope", "horizon", "top_weight", "recent_weight", "class"):
        visit.tab.locator("#metric").select_option(metric)
        colours.append(cell.evaluate(background))
        assert visit.tab.locator("#legend").inner_text() != ""
    assert len(set(colours)) >= 4
    assert "dispersing" in cell.get_attribute("title")
    assert visit.said == []
    visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_all_without_scrolling_sideways(browser: Any, report: Path, scheme: str) -> None:
    visit = Visit(browser, report, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    assert visit.tab.evaluate("document.documentElement.scrollWidth") <= 360
    paper = visit.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(254, 254, 253)") == (scheme == "light")
    assert visit.said == []
    visit.close()
