"""Calibrate a tiny random model in a second, save its edge, load it, and fold it into the weights."""

import tempfile
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from strop.calibrate import Edge, calibrate
from strop.calibrate.fit import Settings
from strop.calibrate.objective import Answers
from strop.tasks.answers import Encoded

torch.manual_seed(0)
SIZES = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
model = LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.3)).eval().requires_grad_(False)


def pairs(count: int) -> Encoded:
    """Pairs key, value, then two of the keys; the answer to a key is the value that stood behind it."""
    keys, values = torch.randperm(30)[:count], torch.randint(30, 60, (count,))
    context = torch.stack([keys, values], 1).view(1, -1)
    ids = torch.stack([context[0, -1].expand(2), keys[:2], values[:2]], 1)
    return Encoded(context[:, :-1], ids, torch.tensor([[False, False, True]] * 2))


def prose(count: int) -> list[torch.Tensor]:
    """What must stay as it is; here, random tokens."""
    return [torch.randint(60, (1, 40)) for _ in range(count)]


batches, validation = [Answers([pairs(8)]) for _ in range(10)], [Answers([pairs(8) for _ in range(8)])]
edge = calibrate(model, batches, prose(2), validation, prose(2), Settings(steps=10, budget=0.2))
progress = edge.made["progress"]
print(f"validation loss {progress['first_task']:.3f} → {progress['best_task']:.3f} nats")
for row in edge.heads():
    print(f"layer {row['layer']} head {row['head']}: β = {row['beta']:.2f}, {row['done']}")

path = Path(tempfile.mkdtemp()) / "edge.safetensors"
edge.save(path)
print(f"{path.stat().st_size} bytes")
again, ids = Edge.load(path), torch.randint(60, (1, 20))
with again.applied(model):
    patched = model(ids).logits
print(f"baked = patched to {float((again.bake(model)(ids).logits - patched).abs().max()):.1e}")
