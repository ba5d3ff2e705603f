"""Watch heads while a model writes: the statistics of every decoding step, on SmolLM2 (extras hf and models)."""

import strop
from strop.pretrained import load_model

model, tokeniser = load_model("smollm2")
tokens = tokeniser("A strop puts the edge back on a blade without", return_tensors="pt")
with strop.observed(model) as seen:
    out = model.generate(**tokens, max_new_tokens=12, do_sample=False, pad_token_id=tokeniser.eos_token_id)
print(tokeniser.decode(out[0]))

print("step  keys  entropy of layer 0 head 0  top weight of layer 0 head 0")
for record in seen.records():
    if record["layer"] == 0 and record["head"] == 0:
        print(f"{record['step']:4}  {record['n_keys']:4.0f}  {record['entropy']:25.3f}  {record['top_weight']:28.3f}")
