import base64
import hashlib
import html.parser
import json
import math
import re
import shutil
import subprocess

import pytest

from strop.report.page import Page
from strop.report.tables import Column, Table

EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(1)>&'</style>"


class Reader(html.parser.HTMLParser):
    """Collects elements and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append((self.elements[-1][0] if self.elements else "", data))

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def full(evil=EVIL):
    page = Page(evil, lead=evil, kicker=evil, provenance={"strop": evil, "commit": None})
    page.fact(evil, evil)
    for _ in range(3):
        section = page.section(evil)
        section.text(f"{evil}\n\n`{evil}`")
        section.note(evil)
        section.heading(evil)
        section.code(evil)
        section.figure("<svg></svg>", evil, alt=evil)
        section.table(Table.of([{"a": evil, "n": 1}], [Column("a", evil), "n"], evil), sortable=True, filterable=True)
    page.data("island", {evil: evil})
    return page


def test_nothing_that_comes_in_as_text_becomes_markup():
    reader = Reader(full().render())
    assert not reader.named("img")
    assert [s.get("type") for s in reader.named("script")] == ["application/json", None]
    assert not any(name.startswith("on") for _, attributes in reader.elements for name in attributes)
    plain = Reader(full("plain").render())
    assert [tag for tag, _ in reader.elements] == [tag for tag, _ in plain.elements]


def test_ids_are_unique_and_links_lead_somewhere():
    reader = Reader(full("the same title").render())
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [a["href"][1:] for a in reader.named("a")] + [i["aria-controls"] for i in reader.named("input")]
    assert len(links) == 6
    assert set(links) <= set(ids)


def test_an_island_reads_back_and_cannot_end_its_element():
    page = Page("x")
    value = {"text": "</script><!--\u2028", "numbers": [1, 0.5, math.inf, math.nan], "none": None}
    page.data("island", value)
    text = page.render()
    island = re.search(r'<script type="application/json" id="island">(.*?)</script>', text, re.S)[1]
    assert "<" not in island
    assert json.loads(island) == {**value, "numbers": [1, 0.5, None, None]}


def test_the_policy_allows_the_page_own_scripts_and_no_network():
    page = Page("x")
    page.script('document.title = "</script>";')
    text = page.render()
    policy = next(m["content"] for m in Reader(text).named("meta") if m.get("http-equiv"))
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(scripts) == 2
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)|url\((?!#|data:)|@import|https?://(?!www\.w3\.org)""", text)


def test_writing_is_atomic_and_repeatable(tmp_path):
    for name in ("a.html", "b.html"):
        full().write(tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_empty_and_bare_pages_render():
    assert "<h1>only a title</h1>" in Page("only a title").render()
    page = Page("x")
    page.section("empty table").table(Table([Column("a")], []))
    assert '<table id="empty-table-table-0">' in page.render()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ACTIONS = """
const out = {};
addEventListener("securitypolicyviolation", (event) => { out.violation = event.violatedDirective; });
const shown = () => [...document.querySelectorAll("tbody tr")].filter((row) => !row.hidden);
const column = (i) => shown().map((row) => row.cells[i].textContent);
const heads = document.querySelectorAll("th button");
heads[1].click(); out.down = column(1); out.aria = document.querySelectorAll("th")[1].ariaSort;
heads[1].click(); out.up = column(1);
heads[0].click(); out.words = column(0);
const filter = document.querySelector("input.filter");
filter.value = "LOC 10"; filter.dispatchEvent(new Event("input")); out.filtered = column(0);
out.island = JSON.parse(document.getElementById("island").textContent);
out.wide = document.documentElement.scrollWidth <= innerWidth;
document.body.dataset.out = JSON.stringify(out);
"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium (Debian: apt-get install chromium)")
def test_sorting_and_filtering_in_a_real_browser(tmp_path):
    page = Page("x")
    values = [
        ("sharp", 2.0),
        ("local 10", math.inf),
        ("sink", None),
        ("local 9", -1e-9),
        ("local 1", 10.0),
        ("b", math.inf),
        ("c", -math.inf),
    ]
    rows = [{"kind": kind, "horizon": horizon} for kind, horizon in values]
    page.section("Heads").table(Table.of(rows, ["kind", "horizon"]), sortable=True, filterable=True)
    page.data("island", {"n": 16})
    page.script(ACTIONS)
    page.write(tmp_path / "page.html")
    told = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-quic", f"--user-data-dir={tmp_path / 'profile'}",
         "--window-size=600,800", "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    out = json.loads(next(b["data-out"] for b in Reader(told.stdout).named("body")))
    assert out == {
        "down": ["∞", "∞", "10.0", "2.00", "−1.00e-9", "−∞", "–"],
        "aria": "descending",
        "up": ["−∞", "−1.00e-9", "2.00", "10.0", "∞", "∞", "–"],
        "words": ["b", "c", "local 1", "local 9", "local 10", "sharp", "sink"],
        "filtered": ["local 1", "local 10"],
        "island": {"n": 16},
        "wide": True,
    }
