import dataclasses
import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kb_client.cli import create_app
from kb_local.doctor import Check, check_libraries, examine
from kb_local.model_server import pinned_files
from kb_local.ports import LOOPBACK, free_port
from kb_local.state import Home


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


async def test_a_machine_that_runs_these_tests_passes_every_check(tmp_path: Path) -> None:
    checks = await examine({"KB_HOME": str(tmp_path / ".kb")})
    # How much others leave free at the moment is theirs to say.
    assert {check.name for check in checks if not check.ok} <= {"disk", "memory"}
    assert not (tmp_path / ".kb").exists()


def test_each_missing_library_is_named_with_the_package_that_has_it() -> None:
    def load(_name: str) -> object:
        raise OSError

    checks = list(check_libraries(bundled=True, load=load))
    assert [(check.ok, check.remedy) for check in checks] == [
        (False, "apt-get install libcurl4"),
        (False, "apt-get install libssl3"),
    ]
    assert list(check_libraries(bundled=False, load=load)) == []


async def test_a_changed_file_of_a_model_is_reported_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = dataclasses.replace(pinned_files.ALL[-1], sha256="0" * 64)
    monkeypatch.setattr(pinned_files, "ALL", (changed,))
    environment = {"KB_HOME": str(tmp_path / ".kb")}

    failed = named(await examine(environment), "models")
    elsewhere = await examine(environment | {"KB_LOCAL_MODELS_API_BASE": "http://127.0.0.1:9/v1"})

    assert not failed.ok
    assert changed.distribution in failed.remedy
    assert "models" not in {check.name for check in elsewhere}


async def test_a_port_in_use_and_a_missing_broker_are_reported_with_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as squatter:
        squatter.bind((LOOPBACK, 0))
        squatter.listen()
        checks = await examine(
            {
                "KB_HOME": str(tmp_path / ".kb"),
                "KB_PORT": str(squatter.getsockname()[1]),
                "KB_KAFKA": f"{LOOPBACK}:{free_port()}",
            }
        )
    assert not named(checks, "KB_PORT").ok
    assert "choose another" in named(checks, "KB_PORT").remedy
    assert not named(checks, "KB_KAFKA").ok


async def test_a_folder_of_a_newer_version_is_reported(tmp_path: Path) -> None:
    home = Home(tmp_path / ".kb")
    home.prepare()
    (home.folder / "format").write_text("99")
    assert not named(await examine({"KB_HOME": str(home.folder)}), "folder").ok


def test_the_command_fails_when_a_check_does_and_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_HOME", str(tmp_path / ".kb"))
    monkeypatch.setenv("KB_MONGOD", "/nonexistent/mongod")
    result = CliRunner().invoke(create_app(), ["doctor", "--json"])
    assert result.exit_code == 1
    (failed,) = [check for check in json.loads(result.stdout) if not check["ok"]]
    assert failed["name"] == "mongod"
    assert "KB_MONGOD" in failed["remedy"]


def test_a_command_called_wrongly_exits_with_2() -> None:
    assert CliRunner().invoke(create_app(), ["up", "--sideways"]).exit_code == 2
