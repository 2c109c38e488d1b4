"""The page on messages lists every schema once."""

import re
from pathlib import Path

from kb_contracts import schemas, topics

PAGE = (Path(__file__).parents[2] / "docs/reference/messages.md").read_text()
LISTED = re.compile(r"\]\(\.\./schemas/(?P<file>[\w.]+)\)")


def test_every_schema_is_listed_once() -> None:
    assert sorted(match["file"] for match in LISTED.finditer(PAGE)) == sorted(schemas.files())


def test_every_topic_is_named() -> None:
    assert [topic.name for topic in topics.TOPICS if f"`{topic.name}`" not in PAGE] == []
