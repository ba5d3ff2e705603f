"""Around the further normalisers: hooks, names, settings, and what is refused."""

import pytest
import torch
from cases import HEAD_DIM, HEADS
from further import FURTHER, causal, inputs, randn

import strop
from strop.normalisers import NAMES, Linear, Softmax, Sparsemax, WithSink, by_name
from strop.normalisers.fusion import Dense

N = 8


class _DoubledKeys(Softmax):
    def prepare_key(self, key):
        return 2 * key


class _ByQuery(Sparsemax):
    def weights_of(self, query, logits, keep=None):
        return self.weights(logits * query[..., :1], keep)


def test_kernels_with_logits_of_their_own_refuse_changed_keys_and_read_queries(draw):
    q, k, v = inputs(draw, N, N, dtype=torch.float32)
    for normaliser in (_DoubledKeys(), _ByQuery()):
        for impl in ("native", "fused_calls"):
            with pytest.raises(ValueError, match="cannot run this call"):
                strop.attention(q, k, v, normaliser=normaliser, impl=impl)
    torch.testing.assert_close(
        strop.attention(q, k, v, normaliser=_DoubledKeys()), strop.attention(q, 2 * k, v, normaliser=Softmax())
    )
    read = (q @ k.mT * HEAD_DIM**-0.5 * q[..., :1]).double()
    torch.testing.assert_close(
        strop.attention(q, k, v, normaliser=_ByQuery()), (Sparsemax().weights(read) @ v.double()).float()
    )
    with pytest.raises(ValueError, match=r"inner must be softmax\(β·logits\) and leave the keys alone, got _Doubled"):
        WithSink(_DoubledKeys(), torch.zeros(()))


def test_the_hooks_change_nothing_for_the_others(draw):
    query, key = randn(draw, HEADS, 3, HEAD_DIM), randn(draw, HEADS, 5, HEAD_DIM)
    logits = query @ key.mT
    for rule in (
        Softmax(2.0),
        strop.normalisers.AdaptiveTemperature(),
        strop.normalisers.Entmax15(),
        strop.normalisers.LearnedSink(HEADS),
    ):
        assert not isinstance(rule.fusion(), Dense)
        assert rule.prepare_key(key) is key
        assert torch.equal(rule.weights_of(query, logits), rule.weights(logits))


SETTINGS = {
    "relative_log_n": {"trained_length": 8}, "power_n": {"trained_length": 8, "heads": 4}, "linear": {}, "softpick": {},
    "selective_temperature": {"heads": 4, "head_dim": 8}, "sigmoid": {"trained_length": 8}, "stick_breaking": {},
    "tra": {"heads": 4, "head_dim": 8}, "selective": {}, "differential": {"heads": 4}, "multi_token": {"heads": 4},
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_names_build_them(name, draw):
    q, k, v = inputs(draw, N, N, dtype=torch.float32)
    normaliser = by_name(name, **SETTINGS[name])
    assert type(normaliser) is NAMES[name]
    assert strop.attention(q, k, v, is_causal=True, normaliser=normaliser).shape == v.shape
    if SETTINGS[name]:
        with pytest.raises(ValueError, match=f"normaliser '{name}' must be given its settings"):
            by_name(name)
    else:
        strop.attention(q, k, v, is_causal=True, normaliser=name)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sigmoid", {"trained_length": 0}, "trained_length must be a finite number greater than 0, got 0"),
        ("power_n", {"trained_length": -1}, "trained_length must be a finite number greater than 0, got -1"),
        ("relative_log_n", {"trained_length": 0}, "trained_length must be a finite number greater than 0, got 0"),
        ("tra", {"heads": 0, "head_dim": 8}, "heads must be at least 1, got 0"),
        ("selective_temperature", {"heads": 4, "head_dim": 0}, "head_dim must be at least 1, got 0"),
        ("differential", {"heads": 3}, "heads must be even and at least 2, got 3. Two heads make one"),
        ("multi_token", {"heads": 4, "c_k": 10}, "c_k must be odd, got 10"),
        ("multi_token", {"heads": 4, "c_q": 0}, "c_q must be at least 1, got 0"),
        ("multi_token", {"heads": 4, "group": 3}, "group must divide the 4 heads, got 3"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, settings, message):
    with pytest.raises(ValueError, match=message):
        by_name(name, **settings)


@pytest.mark.parametrize("kind", ["selective", "multi_token"])
def test_part_of_the_rows_is_refused(kind, draw):
    q, k, v = inputs(draw, 3, N)
    with pytest.raises(ValueError, match=r"must have as many queries as keys, got 3 and 8\. It compares"):
        strop.attention(q, k, v, normaliser=FURTHER[kind]())


def test_an_additive_mask_has_no_meaning_for_a_kernel(draw):
    q, k, v = inputs(draw, N, N)
    numbers = torch.zeros(N, N, dtype=torch.float64).masked_fill(~causal(N), -torch.inf)
    plain = strop.attention(q, k, v, is_causal=True, normaliser=Linear())
    torch.testing.assert_close(strop.attention(q, k, v, numbers, normaliser=Linear()), plain)
    with pytest.raises(ValueError, match="attn_mask must add nothing under Linear"):
        strop.attention(q, k, v, numbers + 0.5, normaliser=Linear())
