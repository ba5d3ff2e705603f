"""One self-contained HTML page: no network, light and dark, readable on a phone.

    page = Page("Softmax must disperse", lead="What we found, in one sentence.")
    section = page.section("Accuracy against size")
    section.text("Ten seeds, `2048` sets each.")       # escaped; blank lines part paragraphs, `code` is code
    section.figure(figures.svg(figure), "Mean ± sd over seeds.", alt="Accuracy falls as n grows")
    section.table(table, sortable=True)
    page.data("records", records)       # JSON.parse(document.getElementById("records").textContent)
    page.write("runs/reproduce/report.html")

All text is escaped; only what goes through html, figure, script and style goes in as it is.
A Content-Security-Policy forbids every request and every script but those given here, by their hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from strop.records import Record, finite, write_text
from strop.report import markup
from strop.report.figures import INK, SERIES
from strop.report.tables import Table


@dataclass
class Section:
    """A heading and what stands under it, in the order of the calls."""

    title: str
    anchor: str
    parts: list[Markup] = field(default_factory=list)

    def html(self, fragment: str) -> None:
        """Add markup as it is. The caller has escaped what is in it (use markupsafe.escape)."""
        self.parts.append(Markup(fragment))

    def text(self, text: str) -> None:
        """Add paragraphs, escaped."""
        self.parts.append(markup.paragraphs(text))

    def note(self, text: str) -> None:
        """Add paragraphs that stand out: a finding, or a warning."""
        self.parts.append(Markup('<aside class="note">{}</aside>').format(markup.paragraphs(text)))

    def heading(self, text: str) -> None:
        """Add a smaller heading."""
        self.parts.append(Markup("<h3>{}</h3>").format(text))

    def code(self, text: str) -> None:
        """Add preformatted text, a command for one."""
        self.parts.append(Markup("<pre><code>{}</code></pre>").format(text))

    def figure(self, svg: str, caption: str = "", *, alt: str) -> None:
        """Add a figure from figures.svg; `alt` says in words what it shows."""
        drawn = Markup(svg.replace("<svg", Markup('<svg role="img" aria-label="{}"').format(alt), 1))
        below = Markup("<figcaption>{}</figcaption>").format(markup.line(caption)) if caption else ""
        self.parts.append(Markup('<figure><div class="sheet">{}</div>{}</figure>').format(drawn, below))

    def table(self, table: Table, *, sortable: bool = False, filterable: bool = False) -> None:
        """Add a table; the reader may sort it by any column and filter its rows by words."""
        name = f"{self.anchor}-table-{len(self.parts)}"
        if filterable:
            box = '<input class="filter" type="search" placeholder="{0}" aria-label="{0}" aria-controls="{1}">'
            self.parts.append(Markup(box).format("Filter rows", name))
        self.parts.append(markup.table(table, name, sortable=sortable))


@dataclass
class Page:
    """A page under construction."""

    title: str
    lead: str = ""
    kicker: str = "strop"
    facts: list[tuple[str, str]] = field(default_factory=list)
    provenance: Record = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    islands: dict[str, object] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    def section(self, title: str) -> Section:
        """Add a section and return it."""
        anchor = re.sub(r"\W+", "-", title.lower()).strip("-") or "section"
        taken = {section.anchor for section in self.sections}
        anchor = anchor if anchor not in taken else f"{anchor}-{len(taken)}"
        self.sections.append(Section(title, anchor))
        return self.sections[-1]

    def fact(self, value: str, meaning: str) -> None:
        """Add one of the few striking numbers on top."""
        self.facts.append((value, meaning))

    def data(self, name: str, value: object) -> None:
        """Add a JSON island under this element id. Not-finite floats become null."""
        self.islands[name] = value

    def script(self, source: str) -> None:
        """Add a script. It runs after the page is parsed; the policy forbids attributes such as onclick."""
        self.scripts.append(source)

    def style(self, css: str) -> None:
        """Add a style sheet. Colours: --ink, --muted, --line, --paper, --wash, --accent, --series-1 … 8."""
        self.styles.append(css)

    def include(self, other: Page) -> None:
        """Add the sections of another page, with its facts, data, scripts and styles; element ids must differ.

        Its lead becomes a note on top of its first section.
        """
        for i, section in enumerate(other.sections):
            added = self.section(section.title)
            if i == 0 and other.lead:
                added.note(other.lead)
            added.parts.extend(section.parts)
        self.facts += other.facts
        self.islands |= other.islands
        self.scripts += other.scripts
        self.styles += other.styles

    def render(self) -> str:
        """Return the page."""
        scripts = [_no_end_tag(script) for script in (_resource("page.js"), *self.scripts)]
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(_resource("page.html.jinja")).render(
            page=self,
            policy=_policy(scripts),
            css=Markup("\n".join([_variables(), _resource("page.css"), *self.styles]).replace("</", "<\\/")),
            islands=[(name, _island(value)) for name, value in self.islands.items()],
            scripts=[Markup(script) for script in scripts],
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page atomically."""
        write_text(path, self.render())


def _variables() -> str:
    """The palette of figures.py as CSS variables, so that page and figures agree."""
    pairs = {**INK, **SERIES}.items()
    light, dark = (";".join(f"--{name}:{both[mode]}" for name, both in pairs) for mode in (0, 1))
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}"


def _island(value: object) -> Markup:
    text = json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _no_end_tag(script: str) -> str:
    """A script element ends at the first </script: write it so that JavaScript reads the same string."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(scripts: list[str]) -> str:
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"


def _resource(name: str) -> str:
    return resources.files("strop.report").joinpath(name).read_text(encoding="utf-8")
