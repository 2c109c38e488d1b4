"""The program `kb` where only the client is installed."""

import sys

import pytest

from kb_client.program import main


def test_without_the_extra_the_program_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "kb_client.cli", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match="1"):
        main()
    assert "the extra cli of kb-client" in capsys.readouterr().err


def test_the_program_prints_its_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kb", "--version"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert capsys.readouterr().out.startswith("kb 0.")
