"""`kb __complete` prints names for a shell: at once, or none, and nothing else."""

import subprocess
import sys
import time
from pathlib import Path
from socket import create_server

import httpx
import pytest

from kb_client.command_line.completion.names import find_names
from kb_client.program import main
from tests.unit.client.command_line.answering_api import ENVIRONMENT, KNOWLEDGE_BASE

PROFILES = """
[profiles.here]
base_url = "http://kb.test"
organization = "acme"
api_key = "kb_a_secret"
[profiles.there]
"""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The limit ends the process, which is that of the tests here.
    monkeypatch.setattr("kb_client.command_line.completion.names.WITHIN_S", 60.0)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in (*ENVIRONMENT, "KB_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "config.toml").write_text(PROFILES)


def answer_with(monkeypatch: pytest.MonkeyPatch, *names: str, status: int = 200) -> list[httpx.Request]:
    requests: list[httpx.Request] = []

    def answer(_: object, request: httpx.Request) -> httpx.Response:
        requests.append(request)
        found = [KNOWLEDGE_BASE | {"name": name} for name in names]
        return httpx.Response(status, json={"knowledge_bases": found, "total_count": len(found), "next_cursor": None})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    return requests


def test_names_of_knowledge_bases_come_from_the_server_that_the_command_would_go_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = answer_with(monkeypatch, "Handbook", "Hand\nbook", "A Handbook", "Handbook")
    monkeypatch.setattr(sys, "argv", ["kb", "__complete", "knowledge-bases", "Hand", "--profile", "here"])
    main()
    assert capsys.readouterr() == ("Handbook\n", "")
    [request] = requests
    assert (request.url.host, request.url.params["name_search"]) == ("kb.test", "Hand")


def test_names_of_profiles_need_no_server() -> None:
    assert find_names("profiles", "", []) == ["here", "there"]
    assert find_names("profiles", "th", []) == ["there"]


@pytest.mark.parametrize("options", [["--profile", "there"], ["--profile", "unknown"], []])
def test_without_settings_there_are_no_names(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert find_names("knowledge-bases", "", options) == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("status", [200, 401, 500, 503])
def test_after_an_error_there_are_no_names(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    requests = answer_with(monkeypatch, "Handbook", status=status)
    assert find_names("knowledge-bases", "", ["--profile", "here"]) == (["Handbook"] if status == 200 else [])
    assert len(requests) == 1


def test_a_server_that_does_not_answer_keeps_the_shell_for_a_second_or_so() -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        environment = {**ENVIRONMENT, "KB_BASE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        program = """
import time
from kb_client.command_line.completion.names import print_names
print_names(["knowledge-bases", ""])
time.sleep(60)
"""
        begin = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
        )
    assert (ended.stdout, ended.stderr) == ("", "")
    assert time.monotonic() - begin < 30
