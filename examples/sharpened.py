"""Another normaliser in a trained model for the length of a block, on SmolLM2 (extra models).

The first two lines of output differ on purpose: the published polynomial on *every* head harms a pretrained
language model. Choose heads, and measure, before you trust a change.
"""

import strop
from strop.normalisers import AdaptiveTemperature, Softmax
from strop.pretrained import load_model

PROMPT = "The capital of France is Paris. The capital of Japan is Tokyo. The capital of Italy is"

model, tokeniser = load_model("smollm2")
tokens = tokeniser(PROMPT, return_tensors="pt")


def answer() -> str:
    """Eight tokens, the likeliest each time."""
    out = model.generate(**tokens, max_new_tokens=8, do_sample=False, pad_token_id=tokeniser.eos_token_id)
    return tokeniser.decode(out[0, tokens["input_ids"].shape[1] :]).replace("\n", " ")


print("plain                       ", answer())
with strop.sharpened(model, AdaptiveTemperature()):
    print("adaptive, every head        ", answer())
with strop.sharpened(model, AdaptiveTemperature(), layers=[0], heads=[0, 1, 2, 6]):
    print("adaptive, four blunt heads  ", answer())
with strop.sharpened(model, {"*.0.self_attn": Softmax(beta=1.2)}):
    print("one layer at beta = 1.2     ", answer())
print("plain again                 ", answer())
