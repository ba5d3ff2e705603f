"""Pages in a real browser: wide tables scroll under their head and beside their first column, on any screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import Visit

from strop.records import read_csv
from strop.report import figures
from strop.report.page import Page
from strop.report.tables import Table
from strop.studies.arena.board import build_board
from strop.studies.arena.report.tables import leaderboard, task_tables
from strop.studies.retrieval.report.groups import ModelGroup
from strop.studies.retrieval.report.tables import accuracy_table

SIZES = tuple(2**k for k in range(4, 15))
RULES = ("softmax", "adaptive", "train entropy", "hard", "best single β, hindsight")


def study() -> Table:
    """The study's own table, with cells as wide as they get."""
    group = ModelGroup("nearest", "last")
    group.by_rule = {rule: {n: [1.0, 0.85, 1.0] for n in SIZES} for rule in (*RULES, *map(str, range(40)))}
    return accuracy_table(group)


def arena() -> list[Table]:
    """The shipped arena's board and the table of its first task."""
    board = build_board(read_csv(Path(__file__).parents[2] / "docs" / "arena" / "records.csv"))
    return [leaderboard(board), task_tables(board)[0]]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Page("A title", lead="A lead.", provenance={"strop": "0"})
    made.fact("41 %", "a fact")
    for title in ("Study", "Figure", "Words", "Arena"):
        made.section(title)
    made.sections[0].table(study(), sortable=True, filterable=True)
    for table in arena():
        made.sections[3].table(table, sortable=True)
    with figures.style():
        figure, axes = figures.new(11.8, 3.7)
        axes.plot([16, 16384], [1, 0], label="softmax")
        figures.sizes_axis(axes, [16, 1024, 16384])
        axes.legend()
    made.sections[1].figure(figures.svg(figure), "A caption.", alt="a line")
    made.sections[2].note("A note with `code`.")
    made.sections[2].code("strop calibrate a-model-of-a-rather-long-name --and-more --of-it --than-a-phone --can-show")
    path = tmp_path_factory.mktemp("page") / "page.html"
    made.write(path)
    return path


def test_the_largest_size_is_in_sight_on_a_laptop(browser: Any, page: Path) -> None:
    visit = Visit(browser, page, viewport={"width": 1300, "height": 900})
    largest = visit.tab.locator("th", has_text="16,384")
    assert largest.count() == 2
    assert all(box["x"] + box["width"] <= 1300 for box in (cell.bounding_box() for cell in largest.all()))
    hidden = visit.tab.locator(".scroll").evaluate_all("boxes => boxes.map(box => box.scrollWidth - box.clientWidth)")
    assert hidden == [0, 0, 0]
    visit.close()


@pytest.mark.parametrize("width", [390, 800])
def test_head_and_first_column_stay_while_the_rest_moves(browser: Any, page: Path, width: int) -> None:
    visit = Visit(browser, page, viewport={"width": width, "height": 700})
    tab, corner, head, first, other = (
        visit.tab, "th:first-child", "th:nth-child(9)", "tbody tr:nth-child(20) td:first-child",
        "tbody tr:nth-child(20) td:nth-child(9)",
    )  # fmt: skip
    tab.locator(".scroll").first.scroll_into_view_if_needed()
    before = {name: tab.locator(name).first.bounding_box() for name in (corner, head, first, other)}
    tab.locator(".scroll").first.evaluate("box => box.scrollTo(100, 200)")
    after = {name: tab.locator(name).first.bounding_box() for name in before}
    moved = {name: (after[name]["x"] - before[name]["x"], after[name]["y"] - before[name]["y"]) for name in before}
    assert moved[other] == pytest.approx((-100, -200), abs=1)
    assert moved[corner] == pytest.approx((0, 0), abs=1)
    assert moved[head] == pytest.approx((-100, 0), abs=1)
    assert moved[first] == pytest.approx((0, -200), abs=1)
    box = after[corner]
    on_top = tab.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).closest('th') !== null", [box["x"] + 8, box["y"] + 8]
    )
    assert on_top  # nothing that moves is drawn over it
    visit.close()


@pytest.mark.parametrize("width", [390, 1300, 1920])
def test_the_page_itself_never_scrolls_sideways(browser: Any, page: Path, width: int) -> None:
    visit = Visit(browser, page, viewport={"width": width, "height": 800})
    assert visit.tab.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.said == []
    visit.close()


CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const paper = (element) => {
    for (; element; element = element.parentElement) {
      const found = parts(getComputedStyle(element).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
  };
  const words = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const ratio = (element) => {
    const style = getComputedStyle(element);
    const [a, b] = [light(parts(element.closest("svg") ? style.fill : style.color)), light(paper(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const shown = [...document.body.querySelectorAll(":not(script)")].filter(words);
  return shown.map((e) => [ratio(e), e.tagName, e.textContent.trim().slice(0, 20)]).sort((a, b) => a[0] - b[0]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_stands_out_from_what_is_behind_it(browser: Any, page: Path, scheme: str) -> None:
    visit = Visit(browser, page, color_scheme=scheme)
    found = visit.tab.evaluate(CONTRAST)
    assert {"TD", "BUTTON", "SMALL", "P", "CODE", "FIGCAPTION", "B", "SPAN", "A", "text"} <= {
        tag for _, tag, _ in found
    }
    assert found[0][0] >= 4.5, found[:3]  # WCAG AA
    visit.close()
