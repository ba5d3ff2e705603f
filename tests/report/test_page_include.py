"""A page made of others, as `strop demo` makes one."""

from strop.report.page import Page


def test_included_pages_keep_their_parts_and_get_anchors_of_their_own():
    whole, first, second = Page("whole"), Page("first", lead="What was found."), Page("second")
    for page, word in ((first, "alpha"), (second, "beta")):
        page.section("Same heading").text(word)
        page.fact(word, "a fact")
        page.data(word, {"value": word})
        page.script(f"window.{word} = 1")
        page.style(f".{word} {{}}")
        whole.include(page)
    assert len({section.anchor for section in whole.sections}) == 2
    html = whole.render()
    assert html.index("What was found.") < html.index("<p>alpha</p>")
    for word in ("alpha", "beta"):
        assert f"<p>{word}</p>" in html
        assert f'id="{word}"' in html
        assert f"window.{word} = 1" in html
        assert f".{word} {{}}" in html
        assert (word, "a fact") in whole.facts
