import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import strop
from strop import records
from strop.records import origin as module


def test_provenance_is_a_record_that_names_versions_machine_and_date(tmp_path):
    found = records.provenance()
    records.write(tmp_path / "r.jsonl", [found])
    assert found["strop"] == strop.__version__
    assert re.match(r"\d+\.\d+", str(found["torch"]))
    assert found["cores"] >= 1
    assert found["instruction_set"]
    assert datetime.fromisoformat(str(found["date"])).tzinfo is not None


def test_commit_is_told_from_a_checkout_only(tmp_path):
    def git(*arguments):
        subprocess.run(
            ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t", *arguments], check=True
        )

    name = Path(module.__file__).name
    (tmp_path / name).write_text("x")
    assert module._commit(tmp_path) is None
    git("init", "-q")
    assert module._commit(tmp_path) is None  # installed inside somebody else's checkout: not our commit
    git("add", name)
    git("commit", "-q", "-m", "m")
    commit = module._commit(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{12}", commit)
    (tmp_path / name).write_text("y")
    assert module._commit(tmp_path) == commit + "+"


def test_records_need_neither_torch_nor_numpy():
    code = "import sys; from strop import records; records.provenance(); print({'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
