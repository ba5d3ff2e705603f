import json

import pytest
from click.testing import CliRunner

from strop.cli import extras
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
