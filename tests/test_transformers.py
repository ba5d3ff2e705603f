"""After `import strop`, transformers knows the attention "strop", whichever of the two came first."""

import subprocess
import sys

import families
import pytest
import tiny
import torch
import transformers

from strop.normalisers import Softmax
from strop.patching import sharpened

KNOWS = "from transformers import AttentionInterface as known; print('strop' in known().valid_keys())"
ORDERS = {
    "strop first": (
        "import strop, importlib, inspect, sys; importlib.reload(strop); assert 'transformers' not in sys.modules\n"
        "import transformers.modeling_utils as awaited; assert len(inspect.getsource(awaited)) > 1000\n" + KNOWS
    ),
    "transformers' models first": f"import transformers.modeling_utils; import strop; {KNOWS}",
}


@pytest.mark.parametrize("order", ORDERS)
def test_transformers_knows_the_name(order):
    done = subprocess.run([sys.executable, "-c", ORDERS[order]], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["True"], done.stderr


def test_transformers_without_strop_does_not():
    done = subprocess.run([sys.executable, "-c", KNOWS], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
def test_a_model_may_be_opened_with_it_and_is_the_same_model(family, tmp_path):
    model, inputs = families.fresh(family), families.inputs(family, side="left")
    model.save_pretrained(tmp_path)
    opened = type(model).from_pretrained(tmp_path, attn_implementation="strop").eval()
    assert opened.config._attn_implementation == "strop"
    seen = inputs["attention_mask"].bool()
    with torch.no_grad():
        wanted, found = model(**inputs).logits, opened(**inputs).logits
        torch.testing.assert_close(found[seen], wanted[seen], rtol=2e-5, atol=2e-5)
        with sharpened(opened, Softmax(3.0)), sharpened(model, Softmax(3.0)):
            sharp = opened(**inputs).logits
            torch.testing.assert_close(sharp[seen], model(**inputs).logits[seen], rtol=2e-5, atol=2e-5)
    assert not torch.allclose(sharp[seen], found[seen], atol=1e-3)
    assert opened.config._attn_implementation == "strop"


def test_it_generates(tmp_path):
    tiny.save(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="strop")
    tokens, settings = tiny.prose(1, 12)[0], {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    assert torch.equal(model.generate(tokens, **settings), tiny.model().generate(tokens, **settings))
