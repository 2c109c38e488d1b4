"""Where a command sends its calls, and as whom."""

from pathlib import Path

import pytest

from kb_client.command_line import connection
from kb_client.command_line.connection import GivenConnection, find_configuration
from kb_client.configuration import Configuration, save_profile
from kb_client.errors import UnusableConfiguration

LOCAL = {"base_url": "http://127.0.0.1:1", "organization": "local", "api_key": "kb_local_1"}
REMOTE = {"KB_BASE_URL": "https://kb.test", "KB_ORGANIZATION": "acme", "KB_API_KEY": "kb_acme_1"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(connection, "_find_on_this_machine", lambda: LOCAL)
    return {"HOME": str(tmp_path)}


def test_without_any_setting_the_local_stack_is_used(home: dict[str, str]) -> None:
    assert find_configuration(GivenConnection(), environment=home).api_key == "kb_local_1"


def test_variables_and_profiles_come_before_the_local_stack(home: dict[str, str]) -> None:
    assert find_configuration(GivenConnection(), environment=home | REMOTE).organization == "acme"
    profile = Configuration("https://kb.test", "stored", "kb_stored_1")
    save_profile("default", profile, path=Path(home["HOME"]) / ".config/kb/config.toml")
    assert find_configuration(GivenConnection(), environment=home).organization == "stored"


@pytest.mark.parametrize("given", [GivenConnection("https://kb.test"), GivenConnection(organization="acme")])
def test_the_key_of_the_local_stack_is_sent_nowhere_else(given: GivenConnection, home: dict[str, str]) -> None:
    with pytest.raises(UnusableConfiguration, match="api_key"):
        find_configuration(given, environment=home)


def test_without_any_server_the_message_says_how_to_get_one(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_find_on_this_machine", lambda: None)
    with pytest.raises(UnusableConfiguration, match="kb up"):
        find_configuration(GivenConnection(), environment=home)
