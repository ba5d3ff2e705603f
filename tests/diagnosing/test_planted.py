"""Models whose fault was built in: the verdict names it."""

import planted
import pytest


@pytest.mark.parametrize("fault", planted.FAULTS)
def test_the_verdict_names_the_fault(fault, tmp_path):
    found = planted.diagnose_planted(fault, 0)
    assert found.cause == fault
    assert fault in found.verdict
    assert [head["role"] for head in found.heads if head["layer"] == 1] == ["carries"]
    assert found.verdict.split(":")[0] in found.report(tmp_path / "page.html").read_text()
