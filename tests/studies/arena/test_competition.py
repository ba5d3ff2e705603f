import errno
import json
import threading
import time
from dataclasses import replace

import pytest
import torch

from strop.engine import Serial
from strop.normalisers import NAMES, AdaptiveTemperature, Hard, Softmax, TopK
from strop.records import DamagedFileError, RecordsError, files
from strop.studies.arena import Arena, ArenaResult, Shape, competition, read_arena, run_arena, runs
from strop.studies.arena.competition import best_rate, collect_records, list_failures
from strop.studies.arena.configs import Training, Trial
from strop.studies.arena.entries import Entry, Place, build_normaliser, find_misfit, split_names
from strop.studies.arena.report.page import describe_misfits
from strop.studies.arena.report.tables import leaderboard, task_table
from strop.studies.arena.runs import BUSY, ArenaJob, build_model, carry_out, find_run, load_trained
from strop.studies.problems import find_problem

SMALL = Arena(
    tasks=("max_retrieval", "average", "recall"),
    entries=("softmax", "adaptive", "ssmax", "top_k(k=2)"),
    seeds=2,
    rates=(1e-3, 4e-3),
    steps=8,
    batch=4,
    sizes=(4, 20),
    problems=16,
    shape=Shape(width=16, heads=2, layers=1),
)


def told(rows):
    """Records without what the clock decides."""
    return [{key: value for key, value in row.items() if "seconds" not in key} for row in rows]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("arena")
    assert run_arena(SMALL, root, Serial()).failures == {}
    return root


def test_every_entrant_has_every_seed_at_every_size(finished):
    rows = collect_records(SMALL, finished)
    found = {(row["task"], row["entry"], row["seed"], row["n"]) for row in rows}
    wanted = {(t, e, s, n) for t in SMALL.tasks for e in SMALL.entries for s in (0, 1) for n in (4, 20)}
    assert found == wanted
    assert len(rows) == len(wanted)
    assert all(0 <= row["accuracy"] <= 1 and row["parameters"] > 0 for row in rows)
    learned = {row["entry"]: row["normaliser_parameters"] for row in rows if row["task"] == "recall"}
    assert learned == {"softmax": 0, "adaptive": 0, "ssmax": 2, "top_k(k=2)": 0}


def test_finished_runs_are_never_run_again(finished, monkeypatch):
    monkeypatch.setattr(competition, "carry_out", lambda job: pytest.fail("a finished run was given out"))
    assert run_arena(SMALL, finished, Serial()).failures == {}


def test_the_same_config_gives_the_same_numbers(finished, tmp_path):
    one = replace(SMALL, tasks=("recall",), entries=("ssmax",), seeds=1)
    run_arena(one, tmp_path, Serial())
    assert told(collect_records(one, tmp_path)) == told(collect_records(one, finished))


def test_entrants_start_from_the_same_weights_and_see_the_same_problems(monkeypatch):
    for task in ("max_retrieval", "recall"):
        models = [build_model(Training(task, name, 1e-3, 3, shape=SMALL.shape)) for name in ("softmax", "qassmax")]
        one, other = (dict(model.state_dict()) for model in models)
        assert all(torch.equal(value, other[name]) for name, value in one.items())
        assert not torch.equal(
            next(iter(one.values())),
            next(iter(build_model(Training(task, "softmax", 1e-3, 4)).state_dict().values()))[:16],
        )
    seen = {}
    monkeypatch.setattr(
        runs,
        "train_on",
        lambda model, task, budget, lr, generator: seen.setdefault(id(model), generator.initial_seed()),
    )
    monkeypatch.setattr(runs, "write_tensors", lambda *_: None)
    monkeypatch.setattr(runs, "_checksum", lambda *_: "")
    for name in ("softmax", "entmax15"):
        runs._train_model(
            Training("average", name, 1e-3, 0, shape=SMALL.shape), find_run(Training("average", name, 1, 0), "x")
        )
    assert len(set(seen.values())) == 1


def test_what_a_normaliser_draws_for_itself_is_the_same_every_time():
    """QASSMax has layers of its own, which torch would draw from its global state."""
    for task in ("max_retrieval", "recall"):
        one, same = (dict(build_model(Training(task, "qassmax", 1e-3, 0)).state_dict()) for _ in range(2))
        assert all(torch.equal(value, same[name]) for name, value in one.items())


def test_entrants_that_share_a_training_share_the_model(finished):
    softmax, adaptive = (Entry.of(name) for name in ("softmax", "adaptive"))
    assert SMALL.training("average", softmax, 1e-3, 0) == SMALL.training("average", adaptive, 1e-3, 0)
    trial = SMALL.trial("average", adaptive, best_rate(SMALL, "average", adaptive, finished), 0)
    model = load_trained(trial, finished)
    assert isinstance(model.normaliser, AdaptiveTemperature)
    assert torch.equal(model.to_key.weight, load_trained(replace(trial, normaliser="softmax"), finished).to_key.weight)


def test_rates_are_chosen_by_validation_loss_alone(tmp_path):
    entry = Entry.of("softmax")
    assert best_rate(SMALL, "average", entry, tmp_path) is None
    for rate, loss in zip(SMALL.rates, (0.4, 0.3), strict=True):
        training = SMALL.training("average", entry, rate, 0)
        find_run(training, tmp_path).finish(training, [{"loss": loss, "accuracy": 1 - loss}])
    assert best_rate(SMALL, "average", entry, tmp_path) == SMALL.rates[1]
    worse = SMALL.training("average", entry, SMALL.rates[1], 1)  # another seed chooses nothing
    find_run(worse, tmp_path).finish(worse, [{"loss": 9.0, "accuracy": 0.0}])
    assert best_rate(SMALL, "average", entry, tmp_path) == SMALL.rates[1]
    diverged = SMALL.training("average", entry, SMALL.rates[1], 0)
    find_run(diverged, tmp_path).finish(diverged, [{"loss": float("nan"), "accuracy": 0.0}])
    assert best_rate(SMALL, "average", entry, tmp_path) == SMALL.rates[0]


def test_a_failed_run_is_told_and_not_counted_and_can_be_mended(tmp_path, monkeypatch):
    arena = replace(SMALL, tasks=("average",), entries=("softmax", "ssmax"), seeds=1)
    honest = runs.train_on

    def breaks(model, *rest):
        if any("normaliser" in name for name, _ in model.named_parameters()):
            raise ArithmeticError("loss must stay finite, got nan at step 100. Lower lr.")
        honest(model, *rest)

    monkeypatch.setattr(runs, "train_on", breaks)
    result = run_arena(arena, tmp_path, Serial())
    failed = result.failures
    assert list(failed) == ["average, ssmax, seed 0, rate 0.001", "average, ssmax, seed 0, rate 0.004"]
    assert list_failures(arena, tmp_path) == failed
    assert list(result.board.cells["average"]) == ["softmax"]
    assert repr(result) == "ArenaResult(1 of 2 models tested. 2 runs failed.)"
    assert "Lower lr." in read_arena(arena, tmp_path).report().read_text()
    monkeypatch.undo()
    assert run_arena(arena, tmp_path, Serial()).failures == {}
    assert list_failures(arena, tmp_path) == {}
    assert len(collect_records(arena, tmp_path)) == 4


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    arena = replace(SMALL, tasks=("average",), entries=("softmax",), seeds=2, rates=(1e-3,))
    honest, left = files.os.replace, [12]

    def replace_until_full(source, target):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device", str(source))
        honest(source, target)

    monkeypatch.setattr(files.os, "replace", replace_until_full)
    failed = run_arena(arena, tmp_path, Serial()).failures
    assert failed
    assert all("No space left" in reason for reason in failed.values())
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("done.json")}
    assert kept
    assert not list(tmp_path.rglob("*.tmp"))
    monkeypatch.undo()
    assert run_arena(arena, tmp_path, Serial()).failures == {}
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert len(collect_records(arena, tmp_path)) == 4


def test_a_folder_of_another_version_is_refused(tmp_path):
    training = SMALL.training("average", Entry.of("softmax"), 1e-3, 0)
    held = find_run(training, tmp_path)
    held.finish(training, [{"loss": 0.1}])
    mark = held.folder / "done.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"format": 99}))
    with pytest.raises(RecordsError, match="another version of strop wrote it"):
        best_rate(SMALL, "average", Entry.of("softmax"), tmp_path)


def test_other_weights_than_those_trained_are_refused(tmp_path):
    training = replace(SMALL.training("average", Entry.of("softmax"), 1e-3, 0))
    carry_out(ArenaJob(str(tmp_path), training))
    path = find_run(training, tmp_path).folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(DamagedFileError, match="must hold the weights that were trained"):
        load_trained(Trial(training, "softmax", (4,)), tmp_path)


def test_a_run_that_another_holds_is_left_to_it_and_then_waited_for(tmp_path):
    training = SMALL.training("average", Entry.of("softmax"), 1e-3, 0)
    held = find_run(training, tmp_path)
    job = ArenaJob(str(tmp_path), training)
    with held.claim() as ours:
        assert ours
        assert carry_out(job) == BUSY
        waiting = threading.Thread(target=carry_out, args=(replace(job, wait=True),))
        waiting.start()
        time.sleep(0.2)
        assert not held.finished
    waiting.join(timeout=30)
    assert held.finished
    assert carry_out(job) == "done"


def test_busy_runs_come_last_and_are_waited_for(tmp_path, monkeypatch):
    given = []

    def other_arena(job):
        given.append((job.config.seed, job.wait))
        return BUSY if job.config.seed == 0 and not job.wait else "done"

    monkeypatch.setattr(competition, "carry_out", other_arena)
    configs = [Training("average", "softmax", 1e-3, seed) for seed in range(3)]
    shown = []
    assert competition._run_phase("training", configs, str(tmp_path), Serial(), shown.append) == {}
    assert given == [(0, False), (1, False), (2, False), (0, True)]
    assert (shown[-1].done, shown[-1].total, shown[-1].running, shown[-1].failed) == (3, 3, 0, 0)


@pytest.mark.parametrize(
    ("text", "trained_as", "tested_as"),
    [
        ("softmax", Softmax, Softmax),
        ("adaptive", Softmax, AdaptiveTemperature),
        ("hard", Softmax, Hard),
        ("top_k", TopK, TopK),
        (" softmax > top_k(k=2) ", Softmax, TopK),
    ],
)
def test_an_entrant_is_read_from_its_name(text, trained_as, tested_as):
    entry, place = Entry.of(text), Place(2, 8, 16)
    assert type(build_normaliser(entry.trained, place)) is trained_as
    assert type(build_normaliser(entry.tested, place)) is tested_as


def test_every_normaliser_of_the_library_can_take_part():
    for name in NAMES:
        entry = Entry.of(name)
        for task in ("max_retrieval", "copy"):
            if find_misfit(entry, find_problem(task), "rope") is None:
                build_model(Training(task, entry.trained, 1e-3, 0), entry.tested)


def test_settings_may_hold_commas():
    assert split_names("softmax, entmax(alpha=1.5),yarn(trained_length=16, slope=0.2)") == (
        "softmax", "entmax(alpha=1.5)", "yarn(trained_length=16, slope=0.2)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"entries": ("sofmax",)}, r"normaliser must be known, got 'sofmax'\. Did you mean 'softmax'\?"),
        ({"entries": ("top_k(q=2)",)}, "settings of top_k must be among k, got q"),
        ({"entries": ("top_k(k=",)}, "normaliser must be a name or name"),
        ({"entries": ("top_k(2)",)}, "settings must be name=value between commas"),
        ({"entries": ("top_k(k=0)",)}, "k must be"),
        ({"entries": ()}, "normalisers must name one or more"),
        ({"tasks": ("max_retrival",)}, "Did you mean 'max_retrieval'"),
        ({"tasks": ()}, "tasks must name one task or more"),
        ({"tasks": ("recall",), "sizes": (1_000_000,)}, "size of recall must be at most"),
        ({"sizes": (0,)}, "must be at least 1"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"rates": (0.0,)}, "rates must be a finite number greater than 0"),
        ({"rates": ()}, "rates must hold one rate or more"),
        ({"shape": Shape(width=15), "tasks": ("copy",)}, "width must be an even multiple of heads"),
    ],
)
def test_what_cannot_be_is_refused_before_any_run(wrong, message):
    with pytest.raises(ValueError, match=message):
        Arena(**wrong)


def test_entrants_that_mix_rows_take_no_part_in_sets():
    arena = replace(SMALL, tasks=("average", "copy"), entries=("softmax", "differential"))
    assert [(task, entry.name) for task, entry in arena.pairs()] == [
        ("average", "softmax"), ("copy", "softmax"), ("copy", "differential"),
    ]  # fmt: skip
    assert describe_misfits(arena) == [
        "Not in average: differential mixes rows or heads, and a set has one row and one head."
    ]


def test_the_page_holds_the_board_its_curves_and_its_csv(finished):
    result = read_arena(SMALL, finished)
    found, page = result.board, result.report()
    text = page.read_text()
    assert page == finished / "arena" / "report.html"
    assert "24 of 24 models tested." in text
    assert text.count("<svg") == 4
    assert "When not to sharpen" in text
    assert len(leaderboard(found).rows) == 4
    assert len(task_table(found, "recall", "test").rows) == 4
    assert (finished / "arena" / "board.csv").read_text().startswith("entry,overall,max_retrieval,recall,average,cost")
    assert {path.name for path in (finished / "arena" / "figures").iterdir()} == {
        "accuracy.png", "board.png", "top-weight.png", "entropy.png",
    }  # fmt: skip


def test_an_empty_arena_has_a_page_too(tmp_path):
    result = ArenaResult(SMALL, tmp_path, records=(), failures={})
    assert result.standing == "0 of 24 models tested."
    assert result.tables() == []
    assert "0 of 24 models tested." in result.report(tmp_path / "page.html").read_text()


def test_a_folder_without_runs_of_this_arena_is_told(tmp_path):
    with pytest.raises(ValueError, match="must hold finished runs of this arena, got none"):
        read_arena(SMALL, tmp_path)


def test_entrants_written_twice_are_one():
    def names(*entries):
        return [entry.name for entry in replace(SMALL, entries=entries).entrants()]

    assert names("top_k(k=2)", "softmax", "top_k(k= 2)") == ["top_k(k=2)", "softmax"]
    assert names("softmax", "adaptive", "softmax>adaptive", "top_k") == ["softmax", "adaptive", "top_k"]


def test_a_name_whose_default_does_nothing_here_is_short_on_either_side():
    assert Entry.of("softmax>top_k") == Entry("softmax>top_k", "softmax", "top_k(k=4)")
    assert Entry.of("top_k>hard") == Entry("top_k>hard", "top_k(k=4)", "hard")
    assert Entry.of("softmax>adaptive").tested == "adaptive"


def test_an_entrant_without_logits_is_left_out_of_alibi():
    arena = replace(SMALL, entries=("softmax", "linear"), shape=replace(SMALL.shape, positions="alibi"))
    assert ("recall", "linear") not in {(task, entry.name) for task, entry in arena.pairs()}
    assert ("average", "softmax") in {(task, entry.name) for task, entry in arena.pairs()}
    assert any("has no logits to which ALiBi could add" in line for line in describe_misfits(arena))
    assert ("recall", "linear") in {(t, e.name) for t, e in replace(SMALL, entries=("linear",)).pairs()}


def test_a_board_without_entropies_or_softmax_has_a_page(tmp_path):
    arena = replace(SMALL, tasks=("average",), entries=("sigmoid",), seeds=1, rates=(1e-3,))
    assert "Accuracy against size" in run_arena(arena, tmp_path, Serial()).report().read_text()
    assert not (tmp_path / "arena" / "figures" / "entropy.png").exists()


def test_lost_weights_are_told_with_the_folder_to_delete(tmp_path):
    arena = replace(SMALL, tasks=("average",), entries=("softmax",), seeds=1, rates=(1e-3,))
    assert run_arena(arena, tmp_path, Serial()).failures == {}
    trial = arena.trial("average", Entry.of("softmax"), 1e-3, 0)
    folder = find_run(trial.training, tmp_path).folder
    (folder / "weights.safetensors").unlink()
    with pytest.raises(DamagedFileError, match=f"got others or none. Delete {folder}"):
        load_trained(trial, tmp_path)
