"""Calibrate a tiny random model in seconds, look at its edge, save it, load it, and fold it into the weights."""

import string
import tempfile
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import strop

WORDS = ["<pad>", *string.printable]
letters = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
letters.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), "isolated")
tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="<pad>")

torch.manual_seed(0)
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), **SIZES)).eval()

settings = {"sizes": (2, 4), "steps": 6, "every": 3, "guard": (), "lengths": (64,)}
edge = strop.calibrate(model, tokenizer, "recall", **settings, runs=None)
print(edge)
for row in edge.heads():
    print(f"layer {row['layer']} head {row['head']}: β = {row['beta']:.2f}, {row['done']}")

folder = edge.save_pretrained(Path(tempfile.mkdtemp()) / "my-edge")
print(f"{(folder / 'edge.safetensors').stat().st_size} bytes")
again, ids = strop.Edge.from_pretrained(folder), torch.randint(60, (1, 20))
with torch.no_grad():
    with strop.sharpened(model, again):
        patched = model(ids).logits
    baked = again.bake(model)(ids).logits
print(f"baked = patched to {float((baked - patched).abs().max()):.1e}")
