"""What runs on CUDA with triton, seen without a card: which implementation, by which calls, in which dtypes."""

import pytest
import torch
from test_cuda_dispatch import HEADS, KNOWN, MEASURED, WHOLE, attend, named, on_cuda

import strop
from strop.edges.forms import TEMPERATURES
from strop.edges.parts import PARTS
from strop.normalisers import NAMES, AdaptiveTemperature, Softmax, Temperature
from strop.normalisers.on_heads import on_heads


class Own(Temperature):
    """A user's own rule, of statistics that only a pass can tell."""

    def inverse_temperature(self, stats):
        return 1.0 + 0.1 * stats.entropy


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_each_normaliser_has_its_way(name, dtype):
    ran, calls = attend(named(name), dtype, is_causal=True)
    ways = [(call.name, call.dtype) for call in calls]
    if name in KNOWN:  # torch's own function comes before the kernels: two products against three
        assert (ran, ways) == ("scaled_query", [("public", dtype)])
    elif name in MEASURED:  # one call, in the dtype of the inputs, and the triangle is a number
        assert (ran, ways, calls[0].mask) == ("triton", [("triton", dtype)], 0)
    else:
        assert (ran, ways) == ("reference" if name in WHOLE else "streaming", [])


@pytest.mark.parametrize("form", TEMPERATURES)
def test_calibrated_edges(form):
    ran, calls = attend(lambda: PARTS[form].start(torch.nn.Identity(), HEADS, 1))
    measured = ("triton", ["triton measures", "triton"])
    assert (ran, [call.name for call in calls]) == (measured if form == "polynomial" else ("scaled_query", ["public"]))


def test_a_rule_of_ones_own_is_measured_first():
    ran, calls = attend(Own)
    assert (ran, [call.name for call in calls]) == ("triton", ["triton measures", "triton"])
    mixed = attend(lambda: on_heads([1, 2], HEADS, AdaptiveTemperature(), Softmax(2.0)))
    assert (mixed[0], [call.name for call in mixed[1]]) == ("triton", ["triton measures", "triton"])


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("ssmax", {"return_stats": True}, "triton"),
        ("softmax", {"softcap": 2.0}, "triton"),
        ("adaptive", {"softcap": 2.0}, "triton"),
        ("ssmax", {"attn_mask": lambda: on_cuda(1, 32)}, "triton"),  # β·bias would be as large as the logits
        ("adaptive", {"attn_mask": lambda: on_cuda(32, 32)}, "triton"),
        ("adaptive", {"attn_mask": lambda: on_cuda(2, 1, 32, 48, dtype=torch.bool), "n_k": 48}, "triton"),
        ("adaptive", {"dropout_p": 0.1}, "fused_calls"),
        ("ssmax", {"dropout_p": 0.1}, "scaled_query"),
        ("adaptive", {"dtype": torch.float64}, "fused_calls"),
        ("sparsemax", {"return_stats": True}, "streaming"),
    ],
)
def test_what_a_call_asks_for_decides(name, more, expected):
    assert attend(named(name), **more)[0] == expected


def test_grouped_keys_are_not_repeated():
    [call] = attend(named("adaptive"), key_heads=2)[1]
    assert (call.name, call.keys) == ("triton", 2)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_threshold_rules_are_refused_by_name_with_what_to_do(name):
    said = r"impl='triton' cannot run this call: \w+ is not of the temperature family\. Use impl='auto' or another of"
    with pytest.raises(strop.StropError, match=said):
        attend(named(name), impl="triton")
