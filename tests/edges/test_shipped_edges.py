"""Every edge in examples/edges can be read, and has a card that speaks of that edge."""

from pathlib import Path

import pytest

from strop.edges.edge import Edge

EDGES = sorted((Path(__file__).parents[2] / "examples" / "edges").glob("*.safetensors"))


def test_there_are_some():
    assert len(EDGES) >= 3


@pytest.mark.parametrize("path", EDGES, ids=lambda path: path.stem)
def test_a_shipped_edge_loads_and_its_card_is_its_own(path):
    edge = Edge.load(path)
    assert edge.heads()
    card = path.with_suffix(".md").read_text()
    assert edge.summary in card  # with the losses of this very edge
    assert edge.fingerprint in card
    numbers = sum(one.numel() for named in edge.parts.values() for part in named.values() for one in part.parameters())
    assert f"{edge.kind}: {numbers:,} numbers" in card
    for row in ("made by", "helps", "costs"):
        assert f"| {row} | " in card
