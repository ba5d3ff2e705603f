"""An edge in other engines: llama.cpp, transformers, PEFT, vLLM.

verb.py                  `export`: a model and an edge → a Plan, and what it writes
plan.py                  what will hold exactly, what to rounding, what cannot be expressed
gguf_model.py            a sharpened GGUF file; gguf_layers.py: its tensors; gguf_blocks.py: their numbers;
                         gguf_file.py: reading and writing it; gguf_likeness.py: is it this model's?
transformers_folder.py   plain weights with the edge in them
peft_folder.py           an (IA)³ adapter; lora_folder.py and adapter_gguf.py: LoRA adapters of the changes in lora.py;
                         adapter_folder.py: what PEFT's folders have in common
at_length.py             a β that depends on the length, fixed at one
vllm_plugin.py           edges that do not bake, in vLLM; vllm_folder.py: a folder for it
new_files.py             whole or not there at all, and never over something else
"""

from __future__ import annotations

from strop.exporting.plan import Plan
from strop.exporting.verb import export

__all__ = ["Plan", "export"]


def __dir__() -> list[str]:
    return __all__
