"""Keys that a sparse model chooses are a mask, the one that the model builds for its own attention."""

import pytest
import torch

import strop
from strop.errors import UnsupportedError
from strop.kernels import LazyMask, Mask
from strop.normalisers import Softmax
from strop.patching.interface import attention_function
from strop.patching.sparse import keep_blocks, keep_keys

SIZES = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def deepseek():
    from transformers import DeepseekV32Config, DeepseekV32ForCausalLM

    config = DeepseekV32Config(
        **SIZES, moe_intermediate_size=16, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=8, index_topk=3, index_n_heads=2, index_head_dim=16, n_routed_experts=4,
        num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=2,
    )  # fmt: skip
    torch.manual_seed(0)
    return DeepseekV32ForCausalLM(config).eval()


@torch.no_grad()
def test_a_model_that_attends_to_chosen_keys_is_the_same_under_strop():
    model, ids = deepseek(), torch.arange(3, 23).view(2, 10)
    plain = model(ids).logits
    with strop.sharpened(model, Softmax()):
        assert torch.allclose(model(ids).logits, plain, atol=1e-6)
    with strop.sharpened(model, Softmax(3.0)):
        assert not torch.allclose(model(ids).logits, plain, atol=1e-4)


def test_numbers_of_keys_and_blocks_name_keys_and_negative_ones_none():
    assert keep_keys(torch.tensor([[0, 2], [-1, 1]]), 3).tolist() == [[True, False, True], [False, True, False]]
    assert keep_blocks(torch.tensor([[1, -1]]), 2, 5).tolist() == [[False, False, True, True, False]]


def test_a_mask_is_narrowed_whole_or_a_few_rows_at_a_time():
    triangle, chosen = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril(), torch.eye(4, dtype=torch.bool)[None, None]
    lazy = LazyMask(build=lambda start, stop: triangle[:, :, start:stop], n_q=4).narrow(chosen)
    assert torch.equal(lazy.rows(1, 3).keep, chosen[:, :, 1:3])
    assert torch.equal(Mask(triangle).narrow(chosen).keep, chosen)
    assert Mask(diagonal=0).narrow(chosen).diagonal == 0


@pytest.mark.parametrize("words", [{"cache": object()}, {"block_indices": torch.zeros(1, 1, 2, 1).long()}])
def test_keys_that_are_chosen_in_an_unknown_way_are_refused(words):
    q = torch.zeros(1, 1, 2, 4)
    with pytest.raises(UnsupportedError, match="Identity must say which keys it attends to by a mask or by an indexer"):
        attention_function(torch.nn.Identity(), q, q, q, None, **words)
