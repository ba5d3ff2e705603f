import json

import pytest
from click.testing import CliRunner

from strop import _extras as extras
from strop.cli.group import strop
from strop.records import provenance

REQUIRES = [
    "torch>=2.6",
    'click>=8.1; extra == "cli"',
    'No_Such.package>=2; python_version > "3" and extra == "ray"',
    'strop[cli]; extra == "report"',
    'MarkupSafe; extra == "report"',
    'pytest; extra == "dev"',
]


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    monkeypatch.setattr(extras.metadata, "requires", lambda _: REQUIRES)
    monkeypatch.setattr(extras, "find_clone", lambda: None)


def test_extras_are_those_of_the_package():
    assert extras.extras() == {
        "cli": ["click"], "ray": ["no_such.package"], "report": ["click", "markupsafe"]
    }  # fmt: skip
    assert extras.remedy("markupsafe._speedups").startswith("Add it with: pip install 'strop[report]' 'torch==")
    assert extras.remedy("pandas.core") == "Add it with: pip install pandas"


def test_doctor_names_versions_and_remedies():
    result = CliRunner().invoke(strop, ["doctor"])
    assert result.exit_code == 0, result.output
    for word in (
        str(provenance()["torch"]),
        "threads",
        "native",
        "without no_such.package",
        "pip install 'strop[ray]' ",
    ):
        assert word in result.output
    assert "strop[report]" not in result.output


def test_doctor_json_is_for_machines():
    found = json.loads(CliRunner().invoke(strop, ["doctor", "--json"]).output)
    assert found["torch"] == provenance()["torch"]
    assert found["threads"] >= 1
    assert found["missing"] == {"cli": [], "ray": ["no_such.package"], "report": []}


def test_a_clone_is_told_commands_that_work_in_a_clone(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "find_clone", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    assert extras.command("ray").startswith("pip install -e '.[ray]' 'torch==")


def test_a_clone_that_is_not_installed_knows_its_extras(monkeypatch, tmp_path):
    def absent(_):
        raise extras.metadata.PackageNotFoundError

    (tmp_path / "pyproject.toml").write_text('[project.optional-dependencies]\nray = ["ray>=2"]\n')
    monkeypatch.setattr(extras.metadata, "requires", absent)
    monkeypatch.setattr(extras, "find_clone", lambda: tmp_path)
    assert extras.extras() == {"ray": ["ray"]}
    monkeypatch.setattr(extras, "find_clone", lambda: None)
    assert extras.extras() == {}


def test_a_missing_extra_is_told_before_anything_is_begun():
    with pytest.raises(ModuleNotFoundError) as told:
        extras.need("cli", "ray")
    assert told.value.name == "no_such.package"
