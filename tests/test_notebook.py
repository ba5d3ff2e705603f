"""The tutorial's notebook runs from its first cell to its last, here on a tiny model."""

from pathlib import Path

import nbformat
import tiny
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"


def test_the_notebook_runs(tmp_path, monkeypatch):
    book = nbformat.read(NOTEBOOK, as_version=4)
    settings = next(cell for cell in book.cells if cell.cell_type == "code")
    assert settings.source.startswith('MODEL = "smollm2"\n')
    folder = tiny.save(tmp_path / "model")
    settings.source = f'MODEL = "{folder}"\nLENGTHS = (32, 64)\nSTEPS = 1\nPARTS = 3'
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (tmp_path / "my-edge" / "edge.safetensors").is_file()


def test_its_outputs_are_those_of_a_real_model():
    shown = str([cell.get("outputs") for cell in nbformat.read(NOTEBOOK, as_version=4).cells])
    assert "smollm2's 270 heads" in shown
    assert "Traceback" not in shown
