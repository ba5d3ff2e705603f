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


def write_card(edge: Edge, path: Path) -> None:
    """Write the card."""
    write_text(path, make_card(edge))


def make_card(edge: Edge) -> str:
    """Return the card as Markdown, with the metadata that a hub reads."""
    model = str(edge.made.get("model", "the model it was made for"))
    recipe: Mapping[str, Any] = edge.made.get("recipe") or {}
    task = recipe.get("data") or recipe.get("task") or edge.form
    gained = "".join(_line(row) for row in edge.figures)
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

## Use

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
