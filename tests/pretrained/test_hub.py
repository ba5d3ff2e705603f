"""A hub name that leads nowhere is told after one question, whatever is wrong with the network."""

import huggingface_hub
import pytest

from strop.errors import SourceError
from strop.pretrained.hub import is_cached_only


@pytest.fixture
def hub(monkeypatch):
    """A hub that answers as it is told, a cache that holds owner/kept alone."""
    asked = []

    def answer(what):
        def model_info(_, name, timeout):
            asked.append((name, timeout))
            if what is not None:
                raise what

        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
        return asked

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    held = {"owner/kept": "/cache/config.json"}
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, _: held.get(name))
    return answer


def test_a_model_on_the_hub_is_asked_for_once(hub):
    asked = hub(None)
    assert not is_cached_only("owner/name")
    assert [name for name, _ in asked] == ["owner/name"]


def test_an_unreachable_hub_is_told_unless_the_cache_has_the_model(hub):
    hub(ConnectionError("proxy says no"))
    assert is_cached_only("owner/kept")
    with pytest.raises(SourceError, match=r"cannot be reached: proxy says no\. Check the path\. .*HTTPS_PROXY"):
        is_cached_only("owner/name")


def test_offline_asks_nobody(hub, monkeypatch):
    asked = hub(None)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert is_cached_only("owner/kept")
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE is set and the hub's cache does not hold it"):
        is_cached_only("owner/name")
    assert asked == []


def test_a_mistyped_folder_that_reads_like_a_hub_name_is_told_the_nearest(hub, monkeypatch, tmp_path):
    hub(ConnectionError())
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=r"got 'modles/tiny': there is no such folder, .* Did you mean models/tiny\?"):
        is_cached_only("modles/tiny")
