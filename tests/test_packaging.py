"""What an installed package holds, as setuptools itself resolves it. Nothing is built."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESOLVE = """
import json, sys
from setuptools import Distribution

package = Distribution({"script_name": "setup.py"})
package.parse_config_files()
package.set_defaults()
package.get_command_obj("egg_info").egg_base = sys.argv[1]
build = package.get_command_obj("build_py")
build.ensure_finalized()
files = [f"{source}/{name}" for _, source, _, names in build.data_files for name in names]
print(json.dumps([files, build.packages]))
"""


@pytest.fixture(scope="module")
def resolved(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77")
    command = [sys.executable, "-W", "ignore", "-c", RESOLVE, str(tmp_path_factory.mktemp("egg"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files, packages = json.loads(done.stdout.splitlines()[-1])
    return [ROOT / file for file in files], packages


def test_checkpoints_stay_in_the_clone(resolved):
    files, packages = resolved
    assert not [file for file in files if "checkpoints" in file.parts]
    assert not [package for package in packages if "checkpoints" in package]
    assert sum(file.stat().st_size for file in files) < 500_000


def test_everything_that_the_code_reads_is_packed(resolved):
    files, packages = resolved
    source = ROOT / "src" / "strop"
    wanted = [
        path
        for ending in ("css", "html", "jinja", "js", "json", "json.gz", "typed")
        for path in source.rglob(f"*.{ending}")
    ]
    assert wanted
    assert not set(wanted) - set(files)
    folders = {".".join(path.parent.relative_to(ROOT / "src").parts) for path in source.rglob("*.py")}
    assert folders == set(packages)
