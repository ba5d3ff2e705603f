"""The native kernel's working memory waits for the next call: nothing remains in it, nobody shares it, none is lost."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from cases import built

import strop

STATUS = Path("/proc/self/status")
counted = pytest.mark.skipif(not STATUS.exists(), reason="the system does not say how much memory a process holds")


def attend(tensors, rule=None):
    return strop.attention(*tensors, normaliser=rule or strop.normalisers.AdaptiveTemperature(), impl="native")


def inputs(draw, n_q, n_k, d=8):
    return [torch.randn(1, 2, n, d, generator=draw) for n in (n_q, n_k, n_k)]


def megabytes():
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@built
@pytest.mark.parametrize("n_q", [1, 70])
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "entmax15"])
def test_nothing_of_an_earlier_call_remains(n_q, kind, draw):
    rule, tensors = strop.normalisers.by_name(kind), inputs(draw, n_q, 3000)
    before = attend(tensors, rule)
    for strange in (float("nan"), float("inf"), 1e30):
        attend([torch.full_like(x, strange) for x in inputs(draw, 70, 5000)], rule)
        assert torch.equal(attend(tensors, rule), before)


@built
def test_calls_at_the_same_time_do_not_share_it(draw):
    cases = [inputs(draw, n_q, n_k) for n_q, n_k in ((70, 3000), (70, 3100), (1, 9000), (40, 2000))]
    alone = [attend(case) for case in cases]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(attend, cases * 25))
    assert all(torch.equal(out, alone[i % 4]) for i, out in enumerate(found))


@built
@counted
def test_a_piece_that_is_too_small_is_let_go(draw):
    q, k, v = inputs(draw, 64, 60_000, d=1)
    before = megabytes()
    for n in range(2000, 60_000, 2000):  # each needs a larger piece than the last: some hundreds of megabytes in all
        attend((q, k[:, :, :n], v[:, :, :n]))
    assert megabytes() - before < 60


@built
@counted
def test_no_more_than_64_megabytes_wait(draw):
    tensors = inputs(draw, 40, 1_200_000, d=1)
    before = megabytes()
    attend(tensors)
    assert megabytes() - before < 64 + 8
