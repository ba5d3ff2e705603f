"""What strop's core does without is asked for by name, with the command that adds it, wherever it is first needed."""

import json
import subprocess
import sys

import pytest

ABSENT = """
import json, sys
from importlib.machinery import PathFinder
own, absent, said = PathFinder.find_spec, [], {}
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else own(name, path, target)
PathFinder.find_spec = staticmethod(find_spec)
import strop
for package, program in json.loads(sys.argv[1]).items():
    absent[:] = [package]
    try:
        exec(program)
    except strop.StropError as error:
        said[package] = f"{type(error).__name__}, {isinstance(error, ModuleNotFoundError)}: {error}"
    except Exception as error:
        said[package] = repr(error)
print(json.dumps(said))
"""

NEEDS = {
    "torch": ("", "strop.attention"),
    "transformers": ("hf", "from strop.pretrained import load_model; load_model('smollm2')"),
    "safetensors": ("hf", "strop.Edge.load('examples/edges/smollm2-recall.safetensors')"),
    "jinja2": ("report", "import strop.report.page"),
    "matplotlib": ("report", "from strop.report.figures import new; new()"),
    "gguf": ("models", "import strop.exporting.gguf_blocks"),
    "scipy": ("report", "from strop.studies.significance import paired_p; paired_p([1.0, 2.0], [2.0, 4.0])"),
    "ray": ("ray", "from strop.engine.cluster import Ray; list(Ray().map(str, [1]))"),
}
LEFT_ALONE = {
    "ray": "import importlib.util; assert importlib.util.find_spec('ray') is None; import ray",
    "triton": "from strop.kernels.triton import MISSING; raise RuntimeError(MISSING)",
}


def ask(programs):
    command = [sys.executable, "-c", ABSENT, json.dumps(programs)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(scope="module")
def said():
    programs = {package: program for package, (_, program) in NEEDS.items()}
    return ask({"torch": programs.pop("torch")}) | ask(programs)


@pytest.mark.parametrize("package", NEEDS)
def test_a_missing_package_is_told_with_the_command_that_adds_it(said, package):
    told, extra = said[package], NEEDS[package][0]
    wanted = f"MissingExtraError, True: this needs the package {package!r}. Add it with: pip install"
    assert told.startswith(wanted)
    assert f"[{extra}]" in told if extra else told == f"{wanted} torch"


def test_imports_of_others_and_mere_questions_are_left_alone():
    told = ask(LEFT_ALONE)
    assert told["ray"] == "ModuleNotFoundError(\"No module named 'ray'\")"
    assert "triton is not installed (pip install " in told["triton"]
