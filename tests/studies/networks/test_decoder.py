from math import cos, sin

import pytest
import torch
import torch.nn.functional as F
from torch import Generator

import strop
from strop.normalisers import TRA, Differential, Linear, MultiToken, Selective, Sigmoid, Softpick, StickBreaking
from strop.studies.networks.decoder import Decoder, DecoderConfig
from strop.studies.networks.positions import POSITIONS, Places, draw_positions
from strop.studies.problems import find_problem

HEADS, HEAD_DIM = 4, 4
MAKERS = {
    "softmax": strop.normalisers.Softmax,
    "adaptive": strop.normalisers.AdaptiveTemperature,
    "ssmax": lambda: strop.normalisers.SSMax(HEADS, bias=True),
    "qassmax": lambda: strop.normalisers.QASSMax(HEADS, HEAD_DIM),
    "asentmax": lambda: strop.normalisers.ASEntmax(HEADS, HEAD_DIM),
    "entmax": lambda: strop.normalisers.Entmax(1.3, learnable=True),
    "top_k": lambda: strop.normalisers.TopK(3),
    "sink": lambda: strop.normalisers.LearnedSink(HEADS),
    "sigmoid": lambda: Sigmoid(8.0, learnable=True),
    "linear": Linear,
    "softpick": Softpick,
    "stick_breaking": StickBreaking,
    "tra": lambda: TRA(HEADS, HEAD_DIM),
    "selective": Selective,
    "differential": lambda: Differential(HEADS),
    "multi_token": lambda: MultiToken(HEADS, 3, 3),
}
NOT_ADDITIVE = {name for name, make in MAKERS.items() if not make().additive}
BOTH = [(name, kind) for name in MAKERS for kind in POSITIONS if not (kind == "alibi" and name in NOT_ADDITIVE)]


def decoder(make=strop.normalisers.Softmax, seed=1, **settings):
    config = DecoderConfig(**{"vocabulary": 11, "width": HEADS * HEAD_DIM, "heads": HEADS, **settings})
    return Decoder(config, make, Generator().manual_seed(seed))


def tokens(count=2, length=13):
    return torch.randint(11, (count, length), generator=Generator().manual_seed(3))


@pytest.mark.parametrize(("name", "positions"), BOTH)
def test_no_token_sees_a_later_one(name, positions):
    model, before = decoder(MAKERS[name], positions=positions), tokens()
    after = before.clone()
    after[:, 8] = (after[:, 8] + 1) % 11
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            one, two = model(before), model(after)
        torch.testing.assert_close(one[:, :8], two[:, :8], atol=1e-6, rtol=0)
        assert not torch.allclose(one[:, 8], two[:, 8], atol=1e-3)


@pytest.mark.parametrize(("name", "positions"), BOTH)
def test_training_and_inference_agree_and_gradients_reach_every_parameter(name, positions):
    model = decoder(MAKERS[name], positions=positions)
    out = model(tokens())
    with torch.no_grad():
        torch.testing.assert_close(model(tokens()), out, atol=1e-4, rtol=1e-4)
    F.cross_entropy(out.flatten(0, 1), tokens().flatten()).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
    for layer in model.layers:
        learned = [parameter.grad.any() for parameter in layer.normaliser.parameters()]
        assert any(learned) or not learned


@pytest.mark.parametrize("name", MAKERS)
def test_the_start_does_not_depend_on_the_normaliser(name):
    plain, other = decoder().state_dict(), decoder(MAKERS[name]).state_dict()
    assert all(torch.equal(other[key], value) for key, value in plain.items())
    again = decoder(MAKERS[name]).state_dict()
    assert all(torch.equal(again[key], value) for key, value in other.items())


def test_only_what_is_asked_is_answered():
    model, asked = decoder(), tokens() % 3 == 0
    assert torch.equal(model(tokens(), asked), model(tokens())[asked])


def test_smeared_keys_hold_half_of_the_key_before_at_first():
    model, plain = decoder(MAKERS["ssmax"], smear=True), decoder(MAKERS["ssmax"])
    assert all(torch.equal(model.state_dict()[name], value) for name, value in plain.state_dict().items())
    x, nowhere = model.embedding(tokens()), Places()
    q, k, v = plain.layers[0].heads(x, nowhere)
    q_smeared, k_smeared, v_smeared = model.layers[0].heads(x, nowhere)
    assert torch.equal(q, q_smeared)
    assert torch.equal(v, v_smeared)
    torch.testing.assert_close(k_smeared[:, :, 0], k[:, :, 0])
    torch.testing.assert_close(k_smeared[:, :, 1:], (k[:, :, 1:] + k[:, :, :-1]) / 2)


def test_smeared_keys_see_no_later_token_and_their_share_is_learned():
    model, before = decoder(smear=True), tokens()
    after = before.clone()
    after[:, 8] = (after[:, 8] + 1) % 11
    out = model(before)
    torch.testing.assert_close(out[:, :8], model(after)[:, :8], atol=1e-6, rtol=0)
    out.square().sum().backward()
    assert all(layer.smear.grad.all() for layer in model.layers)


def test_a_model_that_diverged_gives_a_loss_that_is_not_finite():
    model = decoder()
    with torch.no_grad():
        model.layers[0].to_heads.weight.fill_(torch.nan)
    assert model(tokens()).isnan().any()


def test_layers_have_normalisers_of_their_own():
    one, two = (layer.normaliser.slope for layer in decoder(MAKERS["ssmax"]).layers)
    assert one is not two


def test_turned_products_depend_on_the_distance_alone():
    draw = Generator().manual_seed(0)
    q, k = (torch.randn(1, 8, generator=draw, dtype=torch.float64).repeat(20, 1) for _ in range(2))
    places = Places.of("rope", 20, 1, 8, q)
    products = places.turn(q[:, None])[:, 0] @ places.turn(k[:, None])[:, 0].mT
    for distance in (-7, 0, 1, 12):
        diagonal = products.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert products.std() > 0.1
    torch.testing.assert_close(products.diagonal(), (q * k).sum(-1))


def test_alibi_falls_with_distance_and_hides_the_future():
    bias = Places.of("alibi", 6, 4, 8, torch.zeros(())).bias
    assert bias[0, 5].tolist() == [-1.25, -1.0, -0.75, -0.5, -0.25, 0.0]
    assert bias[3, 5, 0] == -5 * 2.0**-8
    assert (bias.isinf() == torch.ones(6, 6, dtype=torch.bool).triu(1)).all()


def test_without_positions_the_order_of_what_was_seen_does_not_matter():
    shuffled = tokens().clone()
    shuffled[:, :12] = shuffled[:, :12].flip(1)
    one_layer = decoder(positions="nope", layers=1)
    torch.testing.assert_close(one_layer(tokens())[:, 12], one_layer(shuffled)[:, 12], atol=1e-5, rtol=1e-4)
    turned = decoder(positions="rope", layers=1)
    assert not torch.allclose(turned(tokens())[:, 12], turned(shuffled)[:, 12], atol=1e-3)


@pytest.mark.parametrize("positions", POSITIONS)
def test_stats_are_of_the_weights_that_were_used(positions):
    model, read = decoder(MAKERS["qassmax"], positions=positions), tokens()
    first, second = model.attention_stats(read)
    assert first.rows.n_keys[1, 2].tolist() == list(range(1, 14))
    layer = model.layers[0]
    places = Places.of(positions, 13, HEADS, HEAD_DIM, torch.zeros(()))
    q, k, _ = layer.heads(model.embedding(read), places)
    keep = torch.ones(13, 13, dtype=torch.bool).tril()
    q = layer.normaliser.prepare_query(q, torch.arange(1, 14))
    logits = q @ k.mT / 2 + (0 if places.bias is None else places.bias.masked_fill(~keep, 0.0))
    weights = layer.normaliser.weights(logits, keep)
    torch.testing.assert_close(first.top_weight, weights.amax(-1), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(first.entropy, torch.special.entr(weights).sum(-1), atol=1e-5, rtol=1e-4)
    assert second.entropy.shape == (2, HEADS, 13)


def test_a_norm_after_attention_undoes_a_smaller_output():
    model = decoder(norm_after=True)
    before = model(tokens())
    with torch.no_grad():
        for layer in model.layers:
            layer.to_heads.weight[2 * HEADS * HEAD_DIM :] *= 0.5
    torch.testing.assert_close(model(tokens()), before, atol=1e-3, rtol=1e-2)
    assert not torch.allclose(decoder()(tokens()), before, atol=1e-2)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"heads": 3}, "width must be an even multiple of heads, got 16 for 3 heads"),
        ({"width": 4, "heads": 4}, "width must be an even multiple of heads, got 4 for 4 heads"),
        ({"positions": "ropes"}, "Did you mean 'rope'"),
    ],
)
def test_bad_shapes_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        DecoderConfig(**{"vocabulary": 11, "width": 16, **bad})


@pytest.mark.parametrize("name", ["softmax", "ssmax", "differential"])
def test_it_learns_to_copy_four_symbols(name):
    task, draw = find_problem("copy", symbols=8), Generator().manual_seed(0)
    model = decoder(MAKERS[name], vocabulary=task.vocabulary)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(80):
        problems = task.sample(32, 4, draw)
        optimiser.zero_grad()
        F.cross_entropy(model(*problems.arguments), problems.answers).backward()
        optimiser.step()
    problems = task.sample(64, 4, draw)
    assert (model(*problems.arguments).argmax(-1) == problems.answers).float().mean() > 0.95


def test_drawn_positions_are_distinct_sorted_and_repeatable():
    one, two = (draw_positions(50, 13, 40, Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(one, two)
    assert (one.diff() > 0).all()
    assert one.min() == 0
    assert one.max() == 39
    assert one.unique(dim=0).shape == one.shape
    assert torch.equal(draw_positions(1, 7, 7, Generator()), torch.arange(7)[None])
    with pytest.raises(ValueError, match="spread must be at least the tokens of a sequence, got 12 for 13"):
        draw_positions(1, 13, 12, Generator())


def test_each_pair_is_turned_by_its_position_times_its_frequency():
    x, at = torch.randn(1, 3, 1, 4, generator=Generator().manual_seed(0), dtype=torch.float64), [0, 2, 500]
    turned = Places.of("rope", 3, 1, 4, x, torch.tensor([at])).turn(x)
    for token, place in enumerate(at):
        for pair, angle in enumerate((place, place / 100)):  # 10000^(−2/4) = 1/100
            a, b = x[0, token, 0, 2 * pair : 2 * pair + 2].tolist()
            expected = (a * cos(angle) - b * sin(angle), a * sin(angle) + b * cos(angle))
            assert turned[0, token, 0, 2 * pair : 2 * pair + 2].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("positions", POSITIONS)
def test_consecutive_positions_are_the_usual_turn_and_only_distances_count(positions):
    model, count = decoder(positions=positions), torch.arange(13).repeat(2, 1)
    assert torch.equal(model(tokens()), model(tokens(), positions=count))
    torch.testing.assert_close(model(tokens()), model(tokens(), positions=count + 100))
    moved = model(tokens(), positions=count * torch.tensor([[1], [3]]))
    torch.testing.assert_close(moved[0], model(tokens())[0])
    assert torch.allclose(moved[1], model(tokens())[1], atol=1e-3) == (positions == "nope")


def test_each_sequence_is_looked_at_where_it_stands():
    model, at = decoder(), draw_positions(2, 13, 90, Generator().manual_seed(5))
    for both, alone in zip(
        model.attention_stats(tokens(), at), model.attention_stats(tokens()[1:], at[1:]), strict=True
    ):
        torch.testing.assert_close(both.entropy[1:], alone.entropy)
    assert not torch.allclose(both.entropy, model.attention_stats(tokens())[-1].entropy, atol=1e-3)
