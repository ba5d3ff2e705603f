"""A constant β per head as scaled queries: β·(q·k) = (β·q)·k, so that torch's own attention runs, and its gradients.

Our kernels give gradients by running the definition again, n² numbers at a time; for a β that is a constant that
is needless, and at a thousand tokens most of the time. Models that call torch's attention are reached by a mode that
scales the query of the module in which the call is made. Layers that are recomputed in the backward
pass run outside the mode, so those go by our kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from strop.calibrate.forms import Constant, Form
from strop.hf.patch import sharpened
from strop.hf.sites import sites


def scalable(model: nn.Module) -> bool:
    """Whether every attention of the model is torch's function without a soft cap."""
    config: Any = getattr(model, "config", None)
    plain = config is not None and not getattr(config.get_text_config(), "attn_logit_softcapping", None)
    return plain and not sites(model).by_torch and getattr(config, "_attn_implementation", None) == "sdpa"


@contextmanager
def tempered(model: nn.Module, rules: Mapping[str, Form], by_queries: bool = True) -> Iterator[None]:
    """Put rules on a model for the length of the block, by scaled queries where possible; gradients reach them."""
    if not (by_queries and scalable(model) and all(isinstance(rule, Constant) for rule in rules.values())):
        with sharpened(model, rules):
            yield
        return
    modules, scaling = dict(model.named_modules()), _Scaling()
    with ExitStack() as stack:
        for name, rule in rules.items():
            enter, leave = scaling.hooks(rule)
            stack.callback(modules[name].register_forward_pre_hook(enter).remove)
            stack.callback(modules[name].register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(scaling)
        yield


class _Scaling(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.rule: Form | None = None

    def hooks(self, rule: Form) -> tuple[Any, Any]:
        def enter(*_: Any) -> None:
            self.rule = rule

        def leave(*_: Any) -> None:
            self.rule = None

        return enter, leave

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention and self.rule is not None:
            query: Tensor = args[0]
            args = (query * self.rule.numbers.exp()[..., None].to(query.dtype), *args[1:])
        return func(*args, **kwargs)
