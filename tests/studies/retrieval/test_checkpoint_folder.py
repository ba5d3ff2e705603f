import pytest

from strop.engine import Serial
from strop.studies.retrieval import SETTINGS, Study, checkpoint_folder, find_checkpoints, reproduce
from strop.studies.retrieval.checkpoint_folder import copy_checkpoints, list_settings
from strop.studies.retrieval.training.checkpoint_file import load_weights

TINY = Study(settings=("decay",), seeds=1, sizes=(16,), sets=8, survey_sets=200, steps=10)


def test_what_is_copied_is_what_was_trained(tmp_path):
    (model,) = reproduce(TINY, tmp_path, Serial()).models
    (path,) = copy_checkpoints(tmp_path, tmp_path / "package", TINY)
    assert path.name == "seed-0.safetensors"
    copied = load_weights(path, "last", model.train)
    assert all((copied[name] == view).all() for name, view in model.load().params.views.items())
    assert path.stat().st_size < 500_000  # the average, which this setting does not evaluate, stays behind


def test_a_clone_has_ten_whole_models_of_every_default_setting():
    study = Study()
    for name in study.settings:
        paths = find_checkpoints(name)
        assert [path.stem for path in paths] == [f"seed-{seed}" for seed in range(10)]
        for seed, path in enumerate(paths):
            for kind in SETTINGS[name].kinds:
                load_weights(path, kind, study.train_config(name, seed))
    assert set(list_settings()) == set(study.settings)


def test_too_few_are_told_with_what_to_do():
    assert len(find_checkpoints("decay", 3)) == 3
    with pytest.raises(ValueError, match=r"decay must have 11 trained models in .*, got 10\. Ask for fewer seeds\."):
        find_checkpoints("decay", 11)
    with pytest.raises(ValueError, match=r"got 0\. Choose decay, nearest or, to train them, leave out --quick"):
        find_checkpoints("literal", 1)


def test_an_installed_package_says_where_the_models_are(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_folder, "CHECKPOINTS", tmp_path / "checkpoints")
    wanted = r"got 0\. An installed package has none\. Work from a clone of the repository or, to train them, leave out"
    with pytest.raises(ValueError, match=wanted):
        reproduce(Study.quick(), tmp_path, Serial())
    assert not list(tmp_path.iterdir())
