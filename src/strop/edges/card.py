"""An edge in words, as a folder, and on a hub.

A folder holds edge.safetensors and README.md, the card: for which model, how it was made, what it gained and cost, and
how to use it. On a hub the same two files make a repository.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop._checks import require
from strop.edges.edge import FILE
from strop.errors import EdgeFileError
from strop.records import write_text
from strop.report.format import p_value

if TYPE_CHECKING:
    from strop.edges.edge import Edge

_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def summarise_edge(edge: Edge) -> str:
    """Say in two sentences what calibration did."""
    count = Counter(row["done"] for row in edge.heads())
    heads = ", ".join(f"{number} {word}" for word, number in count.most_common())
    if edge.form == "hold":
        return f"Entropies held at their value at {edge.made['trusted']} keys. Heads: {heads}."
    progress = edge.made.get("progress")
    if progress is None:
        return f"Heads: {heads}."
    return (
        f"Validation loss {progress['first_task']:.3f} → {progress['best_task']:.3f} nats at a drift of "
        f"{progress['best_drift']:.4f} nats a token and a harm of {progress['best_harm']:.3f} nats to guarded tasks "
        f"(step {progress['best_step']}, {progress['seconds']:.0f} s). "
        f"Heads: {heads}."
    )


def describe_ladder(edge: Edge) -> list[str]:
    """Return a line for every rung that was climbed to find an edge, and one of what was kept; none for other edges."""
    ladder = edge.made.get("ladder")
    if ladder is None:
        return []
    first = f"untouched: {ladder['untouched']:.3f} nats, over {ladder['groups']} groups of validation prompts"
    nothing = "" if any(row.get("gained") for row in ladder["rungs"]) else " No rung gained."
    kept = f"Kept: {_name_rung(ladder['kept'])}.{nothing}"
    return [first, *(describe_rung(row) for row in ladder["rungs"]), kept]


def describe_rung(row: Mapping[str, Any]) -> str:
    """Say in a line what a rung of the ladder gained and cost."""
    if "skipped" in row:
        return f"{_name_rung(row)}: skipped. {row['skipped']}"
    gain = "gains" if row["gained"] else "not better than the best so far"
    return (
        f"{_name_rung(row)}: {row['loss']:.3f} nats ({row['change']:+.3f}, p {p_value(row['p'])}), {gain}; "
        f"{row['numbers']:,} numbers, drift {row['drift']:.4f}, harm {row['harm']:.3f}, {row['seconds']:.0f} s"
    )


def _name_rung(row: Mapping[str, Any]) -> str:
    return f"query, rank {row['rank']}" if row["form"] == "query" else str(row["form"])


def write_card(edge: Edge, path: Path) -> None:
    """Write the card."""
    write_text(path, make_card(edge))


def make_card(edge: Edge) -> str:
    """Return the card as Markdown, with the metadata that a hub reads."""
    model = str(edge.made.get("model", "the model it was made for"))
    recipe: Mapping[str, Any] = edge.made.get("recipe") or {}
    task = recipe.get("data") or recipe.get("task") or edge.form
    gained = "".join(_line(row) for row in edge.figures)
    ladder = describe_ladder(edge)
    climbed = "\n".join(["## Ladder", "", *(f"- {line}" for line in ladder), "", ""]) if ladder else ""
    return f"""---
library_name: strop
tags: [strop, attention, long-context]
---

# An edge for {model}

{edge.summary}

| | |
|---|---|
| model | {model}, family `{edge.architecture}`, weights `{edge.fingerprint}` |
| form | {edge.kind} |
| calibrated on | {task} |

{climbed}## Use

    import strop
    edge = strop.Edge.from_pretrained("this folder or hub name")
    with strop.sharpened(model, edge):
        model.generate(...)

## Measured

{gained or "Not measured yet: `strop evaluate MODEL --edge edge.safetensors`."}
"""


def find_edge_file(name: str | Path, revision: str | None) -> Path:
    """Return where the file of an edge is, fetching it from a hub where that is what is named."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path / FILE
    if path.is_file():
        return path
    if path.suffix == ".safetensors":
        return path  # mistyped: whoever reads it says that there is no such file
    on_hub = _HUB_NAME.fullmatch(str(name)) is not None
    require(on_hub, f"{name} must be a folder, a file or a hub name owner/name", "none of them", error=EdgeFileError)
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(str(name), FILE, revision=revision))
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise EdgeFileError(f"{name} must be a folder, or a hub repository with {FILE}, got: {reason}") from error


def upload_edge(edge: Edge, name: str, private: bool) -> str:
    """Upload an edge and its card; return the repository's address."""
    from huggingface_hub import HfApi

    require(_HUB_NAME.fullmatch(name) is not None, "name must be owner/name", repr(name))
    api = HfApi()
    with tempfile.TemporaryDirectory() as folder:
        edge.save_pretrained(folder)
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Add an edge")
    return str(address)


def _line(row: Mapping[str, Any]) -> str:
    if "phrasing" in row:
        change = f"{100 * row['before']:.1f} → {100 * row['after']:.1f} % of {row['prompts']} prompts answered exactly"
        return f"- {row['task']} “{row['phrasing']}”, size {row['size']}: {change}\n"
    return f"- prose of {row['tokens']} tokens: {row['change']:+.4f} nats a token\n"
