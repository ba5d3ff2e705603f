"""An edge whose β depends on the number of keys, fixed at one number of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from strop._checks import require
from strop.edges.forms import TEMPERATURES
from strop.edges.temperatures import Constant
from strop.errors import BakeError

if TYPE_CHECKING:
    from strop.edges.edge import Edge


def fix_length(edge: Edge, n_keys: int) -> Edge:
    """Return the edge with the β of every head that it has for a row of `n_keys` keys, whatever the row sees."""
    rules = edge.temperatures
    uses = {rule.uses for rule in rules.values()}
    rule = "--at-length must come with an edge whose β depends on the length"
    require(uses == {"n_keys"}, rule, f"the form {edge.form}", "Leave it out, or use strop.sharpened", BakeError)
    fixed = {name: Constant(found.at(n_keys, 0.0).log()[:, None]) for name, found in rules.items()}
    rest = {term: named for term, named in edge.parts.items() if term not in TEMPERATURES}
    return replace(edge, parts={Constant.term: fixed, **rest}, made={**edge.made, "at_length": n_keys})
