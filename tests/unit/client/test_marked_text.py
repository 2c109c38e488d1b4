"""A byte order mark, which editors and shells put before a text, says how it is written and is no part of it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_client.command_line.definitions import read_definition, read_text
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.configuration import read_profiles
from kb_client.marked_text import decode_marked

MARKED = ["utf-8-sig", "utf-16", "utf-32"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\ufeff")), st.sampled_from(MARKED))
def test_a_text_is_the_same_in_each_marked_encoding(text: str, encoding: str) -> None:
    assert decode_marked(text.encode(encoding)) == text
    assert decode_marked(text.replace("\n", "\r\n").encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-8", *MARKED])
def test_files_of_commands_are_read_with_and_without_a_mark(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "agent.json").write_text(json.dumps({"name": "Größe"}), encoding=encoding)
    (tmp_path / "entry.md").write_text("Tor drei öffnet.", encoding=encoding)
    (tmp_path / "config.toml").write_text('[profiles.a]\nbase_url = "http://kb"\n', encoding=encoding)
    assert read_definition(tmp_path / "agent.json", fields=["name"], ignored=[]) == {"name": "Größe"}
    assert read_text(tmp_path / "entry.md") == "Tor drei öffnet."
    assert read_profiles(tmp_path / "config.toml").by_name == {"a": {"base_url": "http://kb"}}


def test_another_encoding_is_refused_with_the_one_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "entry.md").write_bytes("Größe".encode("cp1252"))
    with pytest.raises(UnusableRequest, match="save it as UTF-8"):
        read_text(tmp_path / "entry.md")
