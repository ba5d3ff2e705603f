import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

figures = pytest.importorskip("strop.report.figures")
pytest.importorskip("matplotlib", reason="needs the extra `report`")


def drawn(shift=0.0):
    with figures.style():
        figure, axes = figures.new(4, 2)
        axes.plot([16, 32, 64], [1, 2 + shift, 3], color=figures.colour(0), label="a < b & c")
        axes.fill_between([16, 64], [0, 1], [1, 2], color=figures.colour(1), alpha=0.2)
        figures.sizes_axis(axes, [16, 32, 64])
        axes.legend()
    return figure


def test_svg_is_the_same_bytes_every_time():
    assert figures.svg(drawn()) == figures.svg(drawn())
    code = "import test_figures as t; import sys; sys.stdout.write(t.figures.svg(t.drawn()))"
    here = __file__.rpartition("/")[0]
    again = subprocess.check_output([sys.executable, "-c", code], cwd=here, text=True)
    assert again == figures.svg(drawn())


def test_svg_is_well_formed_and_follows_the_page():
    text = figures.svg(drawn())
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert not {"width", "height"} & set(root.attrib)
    for variable in ("--ink", "--muted", "--line", "--series-1", "--series-2"):
        assert f"var({variable}, #" in text
    colours = set(re.findall(r"#[0-9a-f]{6}", text))
    assert colours <= {light for light, _ in {**figures.INK, **figures.SERIES}.values()}
    assert not re.search(r"20\d\d-\d\d-\d\d|<style|font-family: '|<metadata", text)
    assert "a &lt; b &amp; c" in text


def test_ids_of_two_figures_do_not_meet():
    first, second = (set(re.findall(r' id="([^"]*)"', figures.svg(drawn(shift)))) for shift in (0, 1))
    assert first
    assert not first & second
    text = figures.svg(drawn())
    assert set(re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', text)) <= {
        pair for name in first for pair in ((name, ""), ("", name))
    }


def test_series_are_told_apart_from_each_other_and_the_page():
    for mode in (0, 1):
        values = [both[mode] for both in {**figures.INK, **figures.SERIES}.values()]
        assert len(set(values)) == len(values)
        paper = luminance(figures.INK["paper"][mode])
        for name, both in figures.SERIES.items():
            light, dark = sorted((paper, luminance(both[mode])))[::-1]
            assert (light + 0.05) / (dark + 0.05) >= 3, (name, both[mode])  # WCAG's floor for graphics
    assert figures.colour(0) == figures.colour(len(figures.SERIES))


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_png_is_written_whole(tmp_path):
    figures.png(drawn(), tmp_path / "deep" / "figure.png")
    assert (tmp_path / "deep" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "deep").iterdir())) == 1


def test_the_house_style_stays_inside_its_block():
    import matplotlib

    before = dict(matplotlib.rcParams)
    drawn()
    assert dict(matplotlib.rcParams) == before
