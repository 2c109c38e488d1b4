from pathlib import Path

import pytest

from tests.unit.client.command_line.answering_api import CommandRunner


@pytest.fixture
def kb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandRunner:
    """The command `kb` on a machine without a profile."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return CommandRunner(monkeypatch, capsys)
