"""What each rank of tests/kernels/test_sharded.py runs: `python ranks.py STORE RANK RANKS OUT [die]`."""

import os
import signal
import sys
from datetime import timedelta

import tiny
import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # imported later, its default arguments would keep the group

import strop
from strop.normalisers import AdaptiveTemperature, LogN, Softmax, WithSink

N, HEADS, GROUPS = 37, 4, 2


def draw_case(seed, n=N, d=8):
    draw = torch.Generator().manual_seed(seed)
    q, k, v, w = (torch.randn(2, h, n, d, generator=draw) for h in (HEADS, GROUPS, GROUPS, HEADS))
    return q * 2, k, v, w


def draw_mask(kind):
    draw = torch.Generator().manual_seed(9)
    keep = torch.rand(2, 1, N, N, generator=draw) < 0.7
    keep[:, :, 5] = False  # a row that sees nothing
    return {
        "bool": keep,
        "padding": keep[:, :, :1],
        "additive": torch.randn(1, HEADS, N, N, generator=draw).masked_fill(~keep[:1], -torch.inf),
    }[kind]


CASES = {
    "softmax": dict(normaliser=Softmax()),
    "causal adaptive": dict(normaliser=AdaptiveTemperature(), is_causal=True),
    "log-n": dict(normaliser=LogN(trained_length=16), is_causal=True),
    "sink": dict(
        normaliser=WithSink(AdaptiveTemperature(), torch.tensor([[0.5], [-1.0], [0.0], [2.0]])), is_causal=True
    ),
    "mask": dict(normaliser=AdaptiveTemperature(), attn_mask="bool"),
    "padding": dict(normaliser=AdaptiveTemperature(), attn_mask="padding"),
    "bias": dict(normaliser=AdaptiveTemperature(), attn_mask="additive"),
    "soft cap": dict(normaliser=AdaptiveTemperature(), softcap=2.0, is_causal=True),
}


def layouts(ranks):
    uneven = [N - 3 * (ranks - 1), *[3] * (ranks - 1)]
    zigzag = strop.Shards.zigzag(N, ranks)
    return {"zigzag": zigzag, "contiguous": strop.Shards.contiguous(N, ranks), "uneven": strop.Shards.of_sizes(uneven)}


def loss_of(out, stats, weights):
    """A number that depends on outputs and on every statistic."""
    numbers = stats.logsumexp + 0.5 * stats.mean + 0.1 * stats.max - 0.2 * stats.min
    return (out * weights).sum() + (torch.where(stats.n_keys > 0, numbers, 0.0) * weights[..., 0]).sum()


def run_case(case, take=lambda tensor, dim=-2: tensor, impl="auto"):
    """Return output, statistics and gradients of this process's part."""
    settings = dict(CASES[case])
    q, k, v, w = draw_case(0)
    kind = settings.pop("attn_mask", None)
    mask = None if kind is None else draw_mask(kind)
    mask = mask if mask is None or mask.shape[-2] == 1 else take(mask)
    leaves = [take(tensor).clone().requires_grad_() for tensor in (q, k, v)]
    out, stats = strop.attention(*leaves, mask, enable_gqa=True, return_stats=True, impl=impl, **settings)
    plain = strop.attention(*leaves, mask, enable_gqa=True, impl=impl, **settings)  # without a cotangent of statistics
    first = torch.autograd.grad(loss_of(out, stats, take(w)), leaves)
    second = torch.autograd.grad((plain * take(w)).sum(), leaves)
    return {"out": out.detach(), "stats": [f.detach() for f in stats], "grads": first, "plain grads": second}


def run_model(take):
    """A tiny Llama, its sequence split: logits and the gradient of a weight."""
    model = tiny.model().requires_grad_(True)
    ids = torch.arange(3, 3 + 24)[None]
    positions = torch.arange(24)[None]
    with strop.sharpened(model, "adaptive"):
        out = model(input_ids=take(ids, 1), position_ids=take(positions, 1), use_cache=False).logits
    weight = next(p for name, p in model.named_parameters() if "k_proj" in name)
    (grad,) = torch.autograd.grad(out.square().sum(), [weight])
    return out.detach(), grad


def main(store, rank, ranks, out, die=False):
    torch.set_num_threads(1)
    timeout = timedelta(seconds=8 if die else 60)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=timeout)
    if die:
        return live_on(rank, ranks)
    found = {}
    for layout, shards in layouts(ranks).items():
        with strop.sharded(shards) as here:
            found |= {(layout, case): run_case(case, here.take) for case in CASES}
    with strop.sharded(strop.Shards.zigzag(24, ranks)) as here:
        found["model"] = run_model(here.take)
    with strop.sharded(strop.Shards.zigzag(N, ranks)) as here:
        q, k, v, _ = (here.take(t) for t in draw_case(0))
        strop.attention(q, k, v, enable_gqa=True, is_causal=True)
        found["sent"] = here.traffic.sent
        try:
            strop.attention(q, k, v, enable_gqa=True, is_causal=rank == 0)
        except strop.errors.RankError as error:
            found["disagreement"] = str(error)
    dist.destroy_process_group()
    found["threads"] = tiny.threads_alive()  # while `here` is still known, as in a script
    try:
        here.group.size()
    except strop.errors.StateError as error:
        found["ended"] = str(error)
    torch.save(found, f"{out}.{rank}")
    return None


def live_on(rank, ranks):
    """Attend again and again; the last rank is killed in the middle of it."""
    q, k, v, _ = draw_case(0, n=512 * ranks, d=16)
    with strop.sharded(strop.Shards.zigzag(512 * ranks, ranks)) as here:
        q, k, v = (here.take(t) for t in (q, k, v))
        for step in range(1000):
            if step == 2 and rank == ranks - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            strop.attention(q, k, v, enable_gqa=True, is_causal=True, normaliser="adaptive")


if __name__ == "__main__":
    store, rank, ranks, out, *rest = sys.argv[1:]
    try:
        main(store, int(rank), int(ranks), out, bool(rest))
    except strop.StropError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(7)
