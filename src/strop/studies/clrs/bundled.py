"""Results that come with the package: the study as it was run, without the hours.

results_<name>.json.gz   {"config": canonical JSON of the study, "provenance": …, "records": [row, …]}
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from strop._checks import require, require_known
from strop.records import Record, canonical, provenance, whole, write_bytes
from strop.studies.clrs.report.tables import PLACE_ARMS
from strop.studies.clrs.result import ClrsResult
from strop.studies.clrs.study import ClrsStudy

BUNDLED: dict[str, Callable[..., ClrsStudy]] = {
    "decoder": ClrsStudy,
    "drawn": ClrsStudy.drawn,
    "smollm2": ClrsStudy.lora,
}
"""Name → the study whose results are bundled: of decoders, of decoders with drawn positions, of SmolLM2."""
DIGITS = 4
_DERIVED = ("exact", "region", "problems", "length", "answers", "edge_numbers", "loss")
"""What is not kept: it follows from the rest, or nothing is made of it."""


def read_bundled(name: str, root: str | Path) -> ClrsResult:
    """Return the results that come with the package.

    Args:
        name: decoder, drawn or smollm2.
        root: the folder to which a report would go.

    Raises:
        ValueError: the results are of another study than today's.

    Examples:
        >>> from strop.studies.clrs import read_bundled
        >>> read_bundled("decoder", "runs")
        ClrsResult(27 of 27 models tested. 0 runs failed.)
    """
    require_known("name", name, BUNDLED)
    study = BUNDLED[name]()
    packed = resources.files("strop.studies.clrs").joinpath(f"results_{name}.json.gz").read_bytes()
    kept = json.loads(gzip.decompress(packed))
    same = kept["config"] == canonical(study)
    require(same, f"results of {name} must be of today's study", "another", "Run it: strop reproduce clrs-text")
    return ClrsResult(study, Path(root), tuple(_restore(study, row) for row in kept["records"]), {})


def write_bundled(result: ClrsResult, path: str | Path) -> None:
    """Write results in the form in which they come with the package.

    Args:
        result: a whole study.
        path: a JSON file, packed.
    """
    kept = [row for row in result.records if row["place"] is None or row["arm"] in PLACE_ARMS]
    rows = [json.dumps(_shorten(row), separators=(",", ":")) for row in kept]
    about = json.dumps({"config": canonical(result.study), "provenance": provenance()})[1:-1]
    text = f'{{{about}, "records": [\n' + ",\n".join(rows) + "\n]}\n"
    write_bytes(path, gzip.compress(text.encode(), mtime=0))


def _shorten(row: Record) -> Record:
    kept = {name: value for name, value in row.items() if name not in _DERIVED}
    return {
        name: round(value, DIGITS) if isinstance(value, float) and name != "lr" else value
        for name, value in kept.items()
    }


def _restore(study: ClrsStudy, row: Record) -> Record:
    marks = str(row.get("rights", ""))[1:]
    derived = {"exact": marks.count("1") / len(marks)} if marks else {}
    return {**row, **derived, "region": study.region(str(row["algorithm"]), whole(row["n"]))}
