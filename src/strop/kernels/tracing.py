"""What surrounds a call: whether its numbers can be looked at, and what torch.func and autocast make of it.

torch.compile, torch.export, fake tensors and tensors on the meta device have shapes and no numbers; inside torch.func's
transforms (vmap, grad, jacrev, …) a tensor stands for many. A check that looks at numbers asks `may_look` first.
"""

from __future__ import annotations

import torch
from torch import Tensor


def may_look(tensor: Tensor) -> bool:
    """Whether numbers may decide what runs: traced ones are not there, and for a device's one would have to wait."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or is_transformed():
        return False
    return tensor.device.type == "cpu" and type(tensor).__name__ != "FakeTensor"


def is_transformed() -> bool:
    """Whether the call is made inside a transform of torch.func, which hides from us who wants a gradient."""
    return torch._C._functorch.peek_interpreter_stack() is not None


vars(is_transformed)["_dynamo_marked_constant"] = True  # torch.compiler.assume_constant_result would load the compiler


def is_known(*sizes: int) -> bool:
    """Whether sizes are numbers: torch.compile and torch.export may leave them open, and a loop would close them."""
    if not torch.compiler.is_compiling():
        return all(isinstance(size, int) for size in sizes)
    from torch.fx.experimental.symbolic_shapes import has_static_value

    return all(has_static_value(size) for size in sizes)


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Return the dtype that torch.autocast asks for on a device; None where it is off."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def autocast(tensor: Tensor) -> Tensor:
    """Cast a tensor as torch.autocast casts the arguments of torch's own attention: all but float64."""
    dtype = autocast_dtype(tensor.device)
    eligible = dtype is not None and tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.to(dtype) if eligible else tensor
