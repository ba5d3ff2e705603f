import json
from importlib.util import find_spec

from click.testing import CliRunner

from strop.cli import extras
from strop.cli.group import strop
from strop.records import provenance


def test_doctor_names_versions_and_remedies(monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "ray", ("a_package_that_is_nowhere",))
    result = CliRunner().invoke(strop, ["doctor"])
    assert result.exit_code == 0, result.output
    for word in (str(provenance()["torch"]), "threads", "native", "pip install 'strop[ray]' 'torch=="):
        assert word in result.output


def test_doctor_json_is_for_machines():
    found = json.loads(CliRunner().invoke(strop, ["doctor", "--json"]).output)
    assert found["torch"] == provenance()["torch"]
    assert found["threads"] >= 1
    assert found["extras"]["ray"] == (find_spec("ray") is not None)
