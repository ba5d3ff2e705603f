"""The critical β of a head: gap counting (strop/sharpness/gaps.py) at the answers' rows.

Their logits are there already, and are counted as they are: the native kernel would have to form them again.
"""

from __future__ import annotations

from torch import Tensor

from strop.diagnosing.symptoms.symptom import Rows, RowSymptom
from strop.sharpness import GapCounts


class CriticalBeta(RowSymptom):
    """The critical β of a head."""

    name = "critical_beta"
    title = "critical β"
    paper = "A Unified Framework for Critical Scaling of Inverse Temperature (arXiv 2605.12697)"
    sentence = "Factor of the logits below which the keys nearest to the first are not parted from it."

    def measure(self, rows: Rows) -> Tensor:
        """Count the gaps of every row."""
        return GapCounts.of(rows.logits).critical_beta()


symptoms = (CriticalBeta(),)
