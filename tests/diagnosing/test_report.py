"""The page of a diagnosis: verdict first, everything escaped, and it works in a real browser."""

import planted
import pytest
from browsing import Visit

import strop
from strop.diagnosing.symptoms import SYMPTOMS

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


@pytest.fixture(scope="module")
def found():
    model = planted.build("dispersion", 3)
    return strop.diagnose(model, planted.tokeniser(), planted.draw_prompts(3), runs=None, name=EVIL)


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    return found.report(tmp_path_factory.mktemp("page") / "diagnosis.html")


def test_everything_is_on_the_page_and_escaped(found, page):
    text = page.read_text(encoding="utf-8")
    assert EVIL not in text
    for one in SYMPTOMS:
        assert one.sentence.split(";")[0].split("'")[0] in text, one.name
        assert one.paper.split("(")[1][:-1] in text, one.name
    trial = found.trials[0]
    assert f">{trial['mended']} of {trial['wrong']}<" in text
    assert text.index("Can a temperature mend it?") < text.index("Causes against size") < text.index("Heads by role")
    assert {row["symptom"] for row in found.symptoms} == {one.name for one in SYMPTOMS}


@pytest.mark.parametrize("width", [390, 1300])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_its_window_and_asks_for_nothing(browser, page, width, scheme):
    visit = Visit(browser, page, viewport={"width": width, "height": 900}, color_scheme=scheme)
    wide = visit.tab.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    assert visit.tab.locator("table:has(th:has-text('wrong, mended'))").is_visible()
    visit.tab.locator("input.filter").fill("carries")
    assert visit.tab.locator("table:has(th:has-text('role')) tbody tr:visible").count() == 1
    assert visit.said == []
    assert visit.asked == [page.as_uri()]
    visit.close()
