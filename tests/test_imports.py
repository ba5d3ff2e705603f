"""`import strop` is light: no torch until something is used, and no optional package then."""

import json
import subprocess
import sys

OPTIONAL = ["click", "jinja2", "matplotlib", "ray", "rich", "safetensors", "scipy", "transformers"]


def modules_after(program):
    code = f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    return json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def test_import_strop_loads_no_torch():
    assert "torch" not in modules_after("import strop")


def test_attention_loads_torch_and_no_optional_package():
    before = set(modules_after("import torch"))
    added = (
        set(modules_after("import strop; strop.attention; strop.normalisers.AdaptiveTemperature; strop.horizon"))
        - before
    )
    assert "strop.kernels.api" in added
    assert not added & set(OPTIONAL)


def test_every_public_name_is_there():
    program = "import strop\nassert all(getattr(strop, name) is not None for name in strop.__all__)\nstrop.nothing"
    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "module 'strop' has no attribute 'nothing'" in failed.stderr


def test_attention_does_not_load_torchs_compiler():
    assert "torch._dynamo" not in modules_after("import strop; strop.attention")
