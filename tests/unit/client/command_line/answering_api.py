"""Runs `kb` in this process against answers that a test gives instead of a server."""

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any, TypeAlias

import httpx
import pytest

from kb_client.cli import main

ENVIRONMENT = {"KB_BASE_URL": "http://kb.test", "KB_ORGANIZATION": "acme", "KB_API_KEY": "kb_a_secret"}
KB_ID = "665f1c2e9b1e8a3d4c5b6a79"
KNOWLEDGE_BASE: dict[str, Any] = {
    "kb_id": KB_ID,
    "kind": "documents",
    "name": "handbook",
    "description": "",
    "tag_ids": ["handbook"],
    "dead_tag_ids": [],
    "chunker_type": "recursive",
    "chunk_size": 200,
    "chunk_overlap": 20,
    "embedding_model": "hash-64",
    "embedding_dimensions": 64,
    "coalesce_neighbors": 0,
    "min_score": None,
    "text_analyzer": "lucene.english",
    "text_normalization": 2,
    "filterable_metadata": [],
    "max_chunks_per_document": 2000,
    "refuse_sensitive": False,
    "rate_limits": {"requests_per_minute": None, "tokens_per_minute": None},
    "status": "active",
    "status_reason": None,
    "paused_at": None,
    "index_rebuild": None,
    "warnings": [],
    "document_count": 2,
    "chunk_count": 1234,
    "created_at": "2026-01-31T00:00:00Z",
    "updated_at": "2026-01-31T00:00:00Z",
    "created_by": "a",
    "updated_by": "a",
    "last_searched_at": None,
}

Answer: TypeAlias = Callable[[httpx.Request], httpx.Response]


class Terminal(StringIO):
    """A stream that commands take for a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class CommandResult:
    status: int
    printed: str
    errors: str


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs commands one after the other."""

    monkeypatch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]

    def __call__(
        self,
        answer: Answer,
        *arguments: str,
        environment: dict[str, str] = ENVIRONMENT,
        typed: str = "",
        piped: str = "",
    ) -> CommandResult:
        self.monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda _, request: answer(request))
        for name in (*ENVIRONMENT, "KB_PROFILE"):
            self.monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.setattr("sys.stdin", Terminal(typed) if typed else StringIO(piped))
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = self.capture.readouterr()
        return CommandResult(int(ended.value.code or 0), printed.out, printed.err)
