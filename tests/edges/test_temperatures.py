"""What is learned for a head: all forms begin with β = 1."""

import pytest
import torch

from strop.edges.temperatures import Constant, Hold, LogLength, PerLayer, Polynomial, PowerLength
from strop.sharpness import RowStats


def test_forms_start_at_one_and_say_what_they_use():
    logits = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    for kind in (Constant, PerLayer, LogLength, PowerLength, Polynomial, Hold):
        rule = kind.start(torch.nn.Identity(), 3, 1)
        assert torch.equal(rule.inverse_temperature(RowStats.of(logits)).expand(2, 3, 5), torch.ones(2, 3, 5)), kind
    log_n = LogLength(torch.tensor([[0.5, 0.2], [0.0, -9.0]]))
    assert log_n.at(256, 0.0).tolist() == pytest.approx([1.5, 1.0])
    assert log_n.at(1024, 0.0).tolist() == pytest.approx([1.5 + 0.2 * 1.3862944, 0.0])
    power_n = PowerLength(torch.tensor([[0.0, 0.5], [0.3, -1.0]]))
    assert power_n.at(1024, 0.0).tolist() == pytest.approx([2.0, 1.3498588 / 4])
    polynomial = Polynomial(torch.tensor([[0.1, 0.2, 0.3, 0.4]]))
    assert float(polynomial.at(9, 2.0)) == pytest.approx(1.1 + 0.2 / 2 + 0.3 / 4 + 0.4 / 8)
    hold = Hold(torch.tensor([[0.5, 4.0]]))
    assert float(hold.at(20, 0.0)) == 1.0
    assert float(hold.at(200, 0.0)) == pytest.approx(1 + 0.5 * (5.2983174 - 4.0))
