"""What calibration finds: an Edge, numbers for the attention of one model, as a small file.

edge.py            an Edge; edge_file.py: its file; card.py: its folder and card
forms.py           which parts an edge may have, by name; parts.py: those parts; part.py: what a part is
temperatures.py    an inverse temperature: a constant, of the length, of the entropy
query_edits.py     the query itself: a factor for each rotary pair, a low-rank edit of its projection
output_scales.py   a factor for what each head gives
apply.py           put on a model for the length of a block
fold.py            what an edge does to weights; place.py: where they are in a model; bake.py does it
"""

from __future__ import annotations

from strop.edges.edge import Edge

__all__ = ["Edge"]


def __dir__() -> list[str]:
    return __all__
