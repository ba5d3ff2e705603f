"""A sequence that is split over processes (extra hf): attention alone, and a model with sharpened attention.

    torchrun --nproc-per-node 2 examples/ranks.py

Every process has its part of the sequence and gets the exact results of its rows. The model is small and untrained.
"""

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM

import strop

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)  # the same whole sequence everywhere, to compare with; a real program reads its part only


def tell(what: str, mine: torch.Tensor, whole: torch.Tensor) -> None:
    """Say on the first process how far the parts of all are from what one process computes."""
    error = (mine - whole).abs().max() / whole.abs().max()
    dist.all_reduce(error, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{what}: {ranks} processes and one differ by {error:.0e}")


# Attention: each process has its rows of query, key and value. Zigzag parts share the work of a causal mask evenly.
q, k, v = torch.randn(3, 1, 4, 1000, 32)
with strop.sharded(strop.Shards.zigzag(n=1000, ranks=ranks)) as here:
    out = strop.attention(*map(here.take, (q, k, v)), is_causal=True, normaliser="adaptive")
whole = strop.attention(q, k, v, is_causal=True, normaliser="adaptive")
tell("attention", out, here.take(whole))

# A model: each process runs it on its own tokens and says where they stand.
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
model = LlamaForCausalLM(LlamaConfig(vocab_size=100, num_key_value_heads=2, **sizes)).eval()
tokens = torch.randint(100, (1, 250))
with strop.sharpened(model, "adaptive"), torch.no_grad():
    with strop.sharded(strop.Shards.zigzag(n=250, ranks=ranks)) as here:
        mine = {"input_ids": here.take(tokens, dim=1), "position_ids": here.positions[None]}
        logits = model(**mine, use_cache=False).logits
    whole = model(tokens, use_cache=False).logits
tell("model", logits, here.take(whole))
dist.destroy_process_group()
