"""Settings come from arguments, then the environment, then a profile; what is missing is named with all three."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.configuration import (
    Configuration,
    Profiles,
    configuration_path,
    load_configuration,
    read_profiles,
    save_profile,
    write_profiles,
)
from kb_client.errors import UnusableConfiguration

KEY = "kb_0123456789abcdef_secret7f3a"
STORED = Configuration("https://stored", "stored", KEY)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose configuration file has the profile `default`."""
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    save_profile("default", STORED, path=configuration_path(environment))
    return environment


def test_each_setting_comes_from_the_first_place_that_has_it(environment: dict[str, str]) -> None:
    environment |= {"KB_BASE_URL": "https://environment/", "KB_ORGANIZATION": "environment"}
    loaded = load_configuration(base_url="https://argument", environment=environment)
    assert (loaded.base_url, loaded.organization, loaded.api_key) == ("https://argument", "environment", KEY)


def test_a_profile_is_chosen_by_argument_then_variable_then_the_last_login(environment: dict[str, str]) -> None:
    path = configuration_path(environment)
    for name in ("staging", "production"):
        save_profile(name, Configuration(f"https://{name}", name, KEY), path=path)
    assert load_configuration(environment=environment).organization == "production"
    environment["KB_PROFILE"] = "staging"
    assert load_configuration(environment=environment).organization == "staging"
    assert load_configuration(profile="default", environment=environment).organization == "stored"


def test_an_unknown_profile_is_an_error_that_names_the_known_ones(environment: dict[str, str]) -> None:
    with pytest.raises(UnusableConfiguration, match="no profile 'prod'; there are: default"):
        load_configuration(profile="prod", environment=environment)


def test_a_missing_setting_is_named_with_the_three_ways_to_set_it(tmp_path: Path) -> None:
    with pytest.raises(UnusableConfiguration) as caught:
        load_configuration(base_url="http://kb", environment={"HOME": str(tmp_path)})
    message = str(caught.value)
    assert "organization= and api_key=" in message or "organization=, api_key=" in message
    assert "KB_ORGANIZATION, KB_API_KEY" in message
    assert "KB_BASE_URL" not in message
    assert "kb login" in message
    assert str(tmp_path / ".config/kb/config.toml") in message


def test_only_the_owner_can_read_the_profiles_also_those_of_a_file_that_was_open(environment: dict[str, str]) -> None:
    path = configuration_path(environment)
    path.chmod(0o644)
    save_profile("other", STORED, path=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["config.toml"]


@given(st.dictionaries(st.text(min_size=1), st.dictionaries(st.sampled_from(["base_url", "api_key"]), st.text())))
def test_profiles_that_are_written_are_read_again(
    tmp_path_factory: pytest.TempPathFactory, by_name: dict[str, dict[str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "profiles" / "config.toml"
    profiles = Profiles(by_name, "é\x7f\n")
    write_profiles(path, profiles)
    assert read_profiles(path) == profiles


@pytest.mark.parametrize(
    "content", [f'[profiles.default]\napi_key = "{KEY}', "profiles = 3", "[profiles.a]\napi_key = 3", "current = []"]
)
def test_a_file_that_can_t_be_used_is_an_error_that_does_not_quote_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(content)
    with pytest.raises(UnusableConfiguration) as caught:
        read_profiles(path)
    assert str(path) in str(caught.value)
    assert "secret7f3a" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "kb.example.com"},
        {"base_url": "https://user:secret7f3a@kb"},
        {"base_url": "https://kb?a=1"},
        {"organization": "a/b"},
        {"api_key": "secret7f3a\n"},
    ],
)
def test_a_value_that_can_t_be_right_is_refused_without_quoting_it(settings: dict[str, str]) -> None:
    complete = {"base_url": "http://kb", "organization": "acme", "api_key": KEY, **settings}
    with pytest.raises(UnusableConfiguration) as caught:
        load_configuration(**complete, environment={})
    assert "secret7f3a" not in str(caught.value)


def test_the_key_is_in_no_repr() -> None:
    assert "secret7f3a" not in repr(STORED)
    assert "secret7f3a" not in repr(Profiles({"default": {"api_key": KEY}}))
