"""The rule belongs to the calling context: a thread, or a task of asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import families
import pytest
import torch
import transformers
from tiny import tokeniser
from torch import Tensor, nn

from strop.errors import StateError
from strop.normalisers import Softmax
from strop.patching import sharpened
from strop.patching.frames import frames_here

RUNS = 60


def logits(model: nn.Module) -> Tensor:
    with torch.no_grad():
        return model(families.ids(1, 7)).logits


def by_rule(model: nn.Module) -> dict[float, Tensor]:
    found = {}
    for beta in (0.5, 1.0, 3.0):
        with sharpened(model, Softmax(beta)):
            found[beta] = logits(model)
    return found


def run(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)


def test_one_model_in_two_threads_under_two_rules_and_nested() -> None:
    model, wrong, done = families.fresh("llama"), [], []
    expected, together = by_rule(model), threading.Barrier(2, timeout=10)

    def check(beta: float) -> None:
        if (logits(model) - expected[beta]).abs().max() > 1e-4:
            wrong.append(beta)
        done.append(beta)

    def work(beta: float) -> None:
        for i in range(RUNS):
            if i % 8 == 0:
                together.wait()
            with sharpened(model, Softmax(beta)):
                check(beta)
                if i % 3 == 0:
                    with sharpened(model, Softmax(1.0)):
                        check(1.0)
                    check(beta)

    run(lambda: work(0.5), lambda: work(3.0))
    assert wrong == []
    assert len(done) >= 2 * RUNS
    assert model.config._attn_implementation == "sdpa"
    assert type(model) is transformers.LlamaForCausalLM


def test_what_is_over_is_forgotten() -> None:
    model = families.fresh("llama")
    with sharpened(model, Softmax(3.0)):
        assert len(frames_here()) == 1
    assert frames_here() == ()  # or a later checkpoint would put it on again


def test_a_thread_without_a_block_uses_the_one_that_there_is() -> None:
    model = families.fresh("llama")
    expected, seen = by_rule(model), []
    with sharpened(model, Softmax(1.0)), sharpened(model, Softmax(3.0)):
        run(lambda: seen.append(logits(model)))
    torch.testing.assert_close(seen[0], expected[3.0])


def test_a_streamers_thread() -> None:
    model, ids = families.fresh("llama", vocab_size=99), families.ids(1, 7)
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    streamer = transformers.TextIteratorStreamer(tokeniser(), skip_prompt=True)
    with sharpened(model, Softmax(4.0)):
        expected = model.generate(ids, **settings)
        run(lambda: model.generate(ids, streamer=streamer, **settings))
    assert "".join(streamer) == tokeniser().decode(expected[0, 7:])
    assert not torch.equal(expected, model.generate(ids, **settings))


def test_several_rules_and_a_thread_without_one() -> None:
    model, errors = families.fresh("llama"), []
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with sharpened(model, Softmax(3.0)):
            inside.set()
            leave.wait(timeout=10)

    def ask() -> None:
        inside.wait(timeout=10)
        try:
            logits(model)
        except StateError as error:
            errors.append(str(error))
        leave.set()

    with sharpened(model, Softmax(0.5)):
        run(hold, ask)
    assert errors == [
        "a thread without a block of its own must find one rule on the model, got 2 on model.layers.0.self_attn, "
        "of several threads. Enter `sharpened` in this thread too."
    ]


@pytest.mark.parametrize("outer", [False, True])
def test_tasks_of_asyncio(outer: bool) -> None:
    model = families.fresh("llama")
    expected = by_rule(model)

    async def work(beta: float) -> None:
        with sharpened(model, Softmax(beta)):
            await asyncio.sleep(0)
            torch.testing.assert_close(logits(model), expected[beta])
            await asyncio.sleep(0)
            torch.testing.assert_close(logits(model), expected[beta])

    async def both() -> None:
        await asyncio.gather(work(0.5), work(3.0))

    def work_together() -> None:
        if outer:
            with sharpened(model, Softmax(1.0)):
                asyncio.run(both())
        else:
            asyncio.run(both())

    with ThreadPoolExecutor(1) as elsewhere:  # where no loop runs: the browser's tests leave one in this thread
        elsewhere.submit(work_together).result(timeout=60)
