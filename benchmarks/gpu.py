"""Check and time the Triton kernels on the card that is here, against torch's own attention.

    python benchmarks/gpu.py

First every case is checked: outputs and gradients against the definition in float64. Then prefill, decoding and forward
with backward are timed in one run: adaptive temperature by `impl="triton"`, plain attention by torch's
scaled_dot_product_attention, and plain attention by FlexAttention. The table at the end is made to be pasted into an
issue. Without a card it says what it needs and ends with code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

import strop
from strop.kernels import Mask, Request, reference

PREFILL = [(1, 16, 2048, 64), (1, 16, 8192, 64), (1, 16, 8192, 128)]
DECODE = [(8, 32, 8, 8192, 128), (1, 32, 8, 65536, 128)]
CHECKS = [(64, 111, 333), (128, 257, 257), (256, 65, 130), (80, 1, 3000)]
DTYPE = torch.bfloat16
DEVICE = "cuda"


def find_need() -> str | None:
    """Say what is missing; None where the benchmark can run."""
    from strop.kernels.triton import MISSING

    if not torch.cuda.is_available():
        return "benchmarks/gpu.py needs a CUDA or ROCm card and a build of torch for it; torch finds none here."
    return f"benchmarks/gpu.py needs triton: {MISSING}." if MISSING else None


def draw(*shape: int, dtype: torch.dtype = DTYPE) -> Tensor:
    """Random numbers on the card."""
    return torch.randn(shape, device=DEVICE, dtype=dtype)


def check(dtype: torch.dtype, d: int, n_q: int, n_k: int) -> float:
    """Return the largest error of output and gradients over the definition's own in this dtype (at most 2 is right)."""
    tensors = [draw(2, heads, n, d, dtype=dtype) for heads, n in ((4, n_q), (2, n_k), (2, n_k))]
    cotangent = draw(2, 4, n_q, d, dtype=dtype)
    exact, plain = (attend_with_gradients(tensors, cotangent, kind, "reference") for kind in (torch.float64, dtype))
    got = attend_with_gradients(tensors, cotangent, dtype, "triton")
    rounding = 16 * torch.finfo(dtype).eps
    return max(
        ((g - e).abs().max() / ((p - e).abs().max() + rounding * (1 + e.abs().max()))).item()
        for g, p, e in zip(got, plain, exact, strict=True)
    )


def attend_with_gradients(tensors: list[Tensor], cotangent: Tensor, dtype: torch.dtype, impl: str) -> list[Tensor]:
    """Output and the three gradients, in float64."""
    leaves = [t.to(dtype).requires_grad_() for t in tensors]
    mask = Mask(diagonal=leaves[1].shape[-2] - leaves[0].shape[-2])
    request = Request(*leaves, mask, leaves[0].shape[-1] ** -0.5, strop.normalisers.AdaptiveTemperature())
    if impl == "reference":
        out, _ = reference.implementation.run(request)
    else:
        from strop.kernels.triton import implementation

        out, _ = implementation.run(request)
    grads = torch.autograd.grad(out, leaves, cotangent.to(dtype))
    return [t.detach().double() for t in (out, *grads)]


def milliseconds(function: Callable[[], object]) -> float:
    """Median time of a call on the card."""
    from triton.testing import do_bench

    return float(do_bench(function, warmup=50, rep=200, return_mode="median"))


def time_prefill(b: int, h: int, n: int, d: int, backward: bool) -> list[float]:
    """Adaptive, torch's plain attention and FlexAttention, causal."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    flex = torch.compile(flex_attention)
    q, k, v = (draw(b, h, n, d).requires_grad_(backward) for _ in range(3))
    cotangent = draw(b, h, n, d)
    triangle = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device=DEVICE)
    calls: list[Callable[[], Tensor]] = [
        lambda: strop.attention(q, k, v, is_causal=True, normaliser="adaptive", impl="triton"),
        lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: flex(q, k, v, block_mask=triangle),
    ]
    if not backward:
        return [milliseconds(call) for call in calls]
    return [milliseconds(lambda call=call: torch.autograd.grad(call(), (q, k, v), cotangent)) for call in calls]


def time_decode(b: int, h: int, h_kv: int, n: int, d: int) -> list[float]:
    """One query against a cache of n keys; FlexAttention too."""
    from torch.nn.attention.flex_attention import flex_attention

    flex = torch.compile(flex_attention)
    q, k, v = draw(b, h, 1, d), draw(b, h_kv, n, d), draw(b, h_kv, n, d)
    return [
        milliseconds(lambda: strop.attention(q, k, v, normaliser="adaptive", enable_gqa=True, impl="triton")),
        milliseconds(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)),
        milliseconds(lambda: flex(q, k, v, enable_gqa=True)),
    ]


def check_all() -> bool:
    """Check each dtype and head size, and print the errors."""
    right = True
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for d, n_q, n_k in CHECKS:
            error = check(dtype, d, n_q, n_k)
            right &= error <= 2
            print(f"{'right' if error <= 2 else 'WRONG'}: {dtype} d={d} {n_q}×{n_k}, {error:.2f} × the plain error")
    return right


def main() -> int:
    """Check, time, and print the table."""
    need = find_need()
    if need is not None:
        print(need)
        return 2
    if not check_all():
        print("The kernels are wrong on this card. Please report it with the lines above.")
        return 1
    import triton

    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, {DTYPE}\n")
    print("| case | adaptive, triton (ms) | torch SDPA, plain (ms) | FlexAttention, plain (ms) | adaptive / SDPA |")
    print("|---|---|---|---|---|")
    for sizes in PREFILL:
        for backward in (False, True):
            report(f"{'forward + backward' if backward else 'prefill'} {sizes}", time_prefill(*sizes, backward))
    for few in DECODE:
        report(f"decode {few}", time_decode(*few))
    return 0


def report(case: str, times: list[float]) -> None:
    """One row of the table."""
    print(f"| {case} | {' | '.join(f'{time:.3f}' for time in times)} | {times[0] / times[1]:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
