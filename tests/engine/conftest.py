from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _jobs_importable(monkeypatch):
    """Workers get the parent's sys.path, so `jobs` beside this file imports there too."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
