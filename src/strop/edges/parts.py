"""All parts that an edge may have."""

from __future__ import annotations

from strop.edges.output_scales import OutputScales
from strop.edges.part import Part
from strop.edges.query_edits import LowRankQuery, Pairs
from strop.edges.temperatures import Constant, Hold, LogLength, PerLayer, Polynomial, PowerLength

PARTS: dict[str, type[Part]] = {
    kind.term: kind
    for kind in (Constant, PerLayer, LogLength, PowerLength, Polynomial, Hold, Pairs, LowRankQuery, OutputScales)
}
"""Term → part."""
