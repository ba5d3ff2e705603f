import pytest

from strop.evaluation.paired import holm
from strop.studies.significance import paired_p


def test_paired_p_is_scipys():
    from scipy.stats import ttest_rel

    a, b = [0.5, 0.7, 0.6, 0.9], [0.4, 0.65, 0.62, 0.7]
    assert paired_p(a, b) == pytest.approx(ttest_rel(a, b).pvalue)
    assert paired_p([1.0], [0.0]) is None
    assert paired_p([1.0, 0.5], [1.0, 0.5]) == 1.0
    assert paired_p([0.9, 0.9], [1.0, 1.0]) is None  # two seeds that miss the same prove nothing
    assert paired_p([0.1 + 0.2, 0.6], [0.2, 0.5]) is None  # nor do they after rounding


def test_holm_against_its_definition_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
