"""The edge that gap counting predicts."""

import pytest
import tiny

from strop.diagnosing.asking import Contexts
from strop.diagnosing.gap_edge import LIMIT, predict_edge
from strop.diagnosing.groups import read_group
from strop.diagnosing.plan import Questioning
from strop.diagnosing.sizes import draw_size


def test_the_predicted_edge_holds_the_critical_beta():
    model, plan = tiny.model(), Questioning(prompts=2, questions=2)
    groups = [read_group(Contexts(model), draw_size(tiny.reader(), "recall", n, plan), "recall", n) for n in (2, 8)]
    edge = predict_edge(model, *groups)
    before, after = (group.number("critical_beta")[group.telling].double().mean(0) for group in groups)
    wanted = (after / before).clamp(1 / LIMIT, LIMIT)
    assert [row["beta"] for row in edge.heads()] == pytest.approx(wanted.tolist(), rel=1e-5)
    assert edge.form == "constant"
