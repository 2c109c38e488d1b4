"""A folder replaces the documents that have its name only if it is the one that they were pushed from."""

import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb_client import AsyncClient
from kb_client.command_line.push.folder_claims import check_folders, store_claims
from kb_client.command_line.unusable_request import UnusableRequest


def problem(status: int, kind: str) -> httpx.Response:
    about = {"type": kind, "title": kind, "status": status, "detail": kind, "request_id": "r"}
    return httpx.Response(status, json=about, headers={"content-type": "application/problem+json"})


@dataclass
class FolderServer:
    """Places of folders, and a number of documents that all of them have."""

    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    document_count: int = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        if name == "documents":
            return httpx.Response(200, json={"documents": [], "total_count": self.document_count, "next_cursor": None})
        stored = self.folders.get(name)
        if request.method == "PUT":
            wanted = json.loads(request.content)
            if wanted.pop("replaces") != (stored and stored["version"]):
                return problem(409, "concurrent-change")
            first = {"name": name, "first_pushed_at": "2026-01-31T12:00:00Z", "version": 0}
            stored = self.folders[name] = (stored or first) | wanted
            stored["version"] += 1
        if stored is None:
            return problem(404, "not-found")
        return httpx.Response(200, json=stored)


@pytest.fixture
def server() -> FolderServer:
    return FolderServer()


@pytest.fixture
async def client(server: FolderServer) -> AsyncIterator[AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(server.answer)) as http:
        yield AsyncClient("http://kb.test", organization="acme", api_key="kb_a_secret", http=http)


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


async def push(
    client: AsyncClient, root: Path, *, source: str | None = None, adopt: bool = False, answer: bool | None = None
) -> list[str]:
    """Push a folder as `kb docs push` does up to its first document; return the questions."""
    questions: list[str] = []

    def ask(question: str) -> bool:
        questions.append(question)
        return bool(answer)

    claims = await check_folders(client, {source or root.name: root}, is_named=source is not None, adopt=adopt, ask=ask)
    await store_claims(client, claims)
    return questions


async def test_a_folder_is_pushed_again_and_again_under_whatever_path(
    server: FolderServer, client: AsyncClient, tmp_path: Path
) -> None:
    docs = folder(tmp_path / "a" / "docs")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert await push(client, docs) == []
    server.document_count = 2
    assert await push(client, docs) == []
    assert await push(client, tmp_path / "link" / "docs") == []
    assert server.folders["docs"]["version"] == 1


async def test_another_folder_of_the_same_name_is_refused_with_the_place_of_the_first_one(
    server: FolderServer, client: AsyncClient, tmp_path: Path
) -> None:
    first, other = folder(tmp_path / "a" / "docs"), folder(tmp_path / "b" / "docs")
    await push(client, first)
    server.document_count = 2
    before = dict(server.folders["docs"])
    with pytest.raises(UnusableRequest) as refused:
        await push(client, other)
    said = str(refused.value)
    for part in ("2 documents", str(first), str(other), "Nothing was sent", "--source b-docs", "--adopt"):
        assert part in said
    assert server.folders["docs"] == before


async def test_the_same_path_on_another_host_is_another_folder(
    server: FolderServer, client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = folder(tmp_path / "docs")
    monkeypatch.setattr(socket, "gethostname", lambda: "Laptop.local")
    await push(client, docs)
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop.office.example")
    assert await push(client, docs) == [], "a domain changes with the network"
    monkeypatch.setattr(socket, "gethostname", lambda: "server")
    with pytest.raises(UnusableRequest, match="laptop:"):
        await push(client, docs)


async def test_a_folder_that_was_moved_is_adopted_by_an_answer_or_an_option(
    server: FolderServer, client: AsyncClient, tmp_path: Path
) -> None:
    docs = folder(tmp_path / "a" / "docs")
    await push(client, docs)
    moved = docs.rename(folder(tmp_path / "b") / "docs")
    [question] = await push(client, moved, answer=True)
    assert "which is no longer there" in question
    assert await push(client, moved) == []
    again = moved.rename(tmp_path / "docs")
    assert await push(client, again, adopt=True) == []
    assert server.folders["docs"]["path"] == str(again)


async def test_documents_of_an_unknown_folder_are_asked_about(
    server: FolderServer, client: AsyncClient, tmp_path: Path
) -> None:
    server.document_count = 1
    docs = folder(tmp_path / "docs")
    with pytest.raises(UnusableRequest, match="not known which folder"):
        await push(client, docs)
    await push(client, docs, adopt=True)
    assert await push(client, docs) == []


async def test_a_source_that_was_named_is_the_same_one_in_every_checkout(
    server: FolderServer, client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        monkeypatch.setattr(socket, "gethostname", lambda number=number: f"runner-{number}")
        checkout = folder(tmp_path / str(number) / "docs")
        assert await push(client, checkout, source="product-docs") == []
        server.document_count = 2
    with pytest.raises(UnusableRequest, match="--source product-docs"):
        await push(client, folder(tmp_path / "product-docs"))


async def test_naming_a_source_does_not_take_it_from_another_folder(
    server: FolderServer, client: AsyncClient, tmp_path: Path
) -> None:
    docs, checkout = folder(tmp_path / "docs"), folder(tmp_path / "ci" / "docs")
    await push(client, docs)
    server.document_count = 2
    with pytest.raises(UnusableRequest, match="--adopt the first time"):
        await push(client, checkout, source="docs")
    # Named where it is: from then on it may be pushed from anywhere.
    assert await push(client, docs, source="docs") == []
    assert await push(client, checkout, source="docs") == []


async def test_of_two_first_pushes_at_once_one_sends_nothing(
    server: FolderServer, client: AsyncClient, tmp_path: Path
) -> None:
    roots = [folder(tmp_path / name / "docs") for name in "ab"]
    both = [
        await check_folders(client, {"docs": each}, is_named=False, adopt=False, ask=lambda _: False) for each in roots
    ]
    await store_claims(client, both[0])
    with pytest.raises(UnusableRequest, match="at this moment"):
        await store_claims(client, both[1])
    assert server.folders["docs"]["path"] == str(roots[0])
