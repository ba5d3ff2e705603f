from strop.engine import Serial
from strop.experiments.bundle import bundle
from strop.experiments.reproduce import Study, run
from strop.experiments.reproduce_settings import DEFAULT, SETTINGS
from strop.models import bundled
from strop.train.checkpoint import load_weights

TINY = Study(settings=("decay",), seeds=1, sizes=(16,), sets=8, survey_sets=200, steps=10)


def test_what_is_bundled_is_what_was_trained(tmp_path):
    _, models = run(TINY, tmp_path, Serial())
    (path,) = bundle(tmp_path, tmp_path / "package", TINY)
    assert path.name == "seed-0.safetensors"
    shipped = load_weights(path, "last", models[0].train)
    assert all((shipped[name] == view).all() for name, view in models[0].load().params.views.items())
    assert path.stat().st_size < 500_000  # the average, which this setting does not evaluate, stays behind


def test_the_package_ships_ten_whole_models_of_every_default_setting():
    study = Study()
    for name in DEFAULT:
        paths = bundled.bundled(name)
        assert [path.stem for path in paths] == [f"seed-{seed}" for seed in range(10)]
        for seed, path in enumerate(paths):
            for kind in SETTINGS[name].kinds:
                load_weights(path, kind, study.train(name, seed))
    assert set(bundled.settings()) == set(DEFAULT)
