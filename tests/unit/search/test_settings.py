"""Settings of search that must not be misread: the process ends with what is wrong."""

import pytest
from pydantic import ValidationError

from kb_search.settings import SearchSettings


def test_chat_models_are_joined_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_CHAT_MODEL", "gpt-4o-mini")
    assert SearchSettings().chat_models is None
    monkeypatch.setenv("KB_CHAT_MODELS", " gpt-4o*, demo-extractive ,")
    assert SearchSettings().chat_models == ("gpt-4o*", "demo-extractive")


@pytest.mark.parametrize("empty", ["", " ", ","])
def test_an_empty_list_of_chat_models_is_refused_because_it_could_mean_all_or_none(
    monkeypatch: pytest.MonkeyPatch, empty: str
) -> None:
    monkeypatch.setenv("KB_CHAT_MODELS", empty)
    with pytest.raises(ValidationError, match="name at least one chat model"):
        SearchSettings()


def test_a_default_chat_model_that_is_not_allowed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_CHAT_MODELS", "gpt-4o")
    with pytest.raises(ValidationError, match="KB_CHAT_MODEL names a model that KB_CHAT_MODELS does not allow"):
        SearchSettings()
