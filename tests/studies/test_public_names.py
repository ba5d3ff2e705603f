"""The doors of the studies: what `dir` shows, and examples that run."""

import importlib
import subprocess
import sys

import pytest

import strop.studies

PACKAGES = [f"strop.studies.{name}" for name in ("problems", "networks", "retrieval", "arena")]


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_shows_the_public_names_alone(package):
    module = importlib.import_module(package)
    assert dir(module) == sorted(module.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


def test_the_package_loads_nothing_heavy():
    light = [
        *PACKAGES,
        "strop.studies.retrieval.study",
        "strop.studies.arena.arena",
    ]  # and what option defaults come from
    light.remove("strop.studies.networks")
    code = f"import sys, {', '.join(light)}; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
    assert strop.studies.RUNS == "runs"
