"""A push asks little to find out what the server has, and loses nothing that others changed there."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb_client import AsyncClient
from kb_client.command_line.push.follow import Obstacles, find_obstacles, plan_changes
from kb_client.command_line.push.request import PushRequest
from kb_client.command_line.push.stored_documents import read_folders
from kb_client.files.document_ids import id_prefix, make_document_id
from kb_client.files.find_files import find_files
from kb_client.files.source_digest import digest_file
from kb_client.files.watch import FileChanges


@dataclass
class DocumentServer:
    """Documents by their ids, and the requests that were made for them."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def add(self, document_id: str, digest: str = "1", *, tag_ids: tuple[str, ...] = ("handbook",)) -> None:
        self.documents[document_id] = {
            "document_id": document_id,
            "document_name": "A",
            "state": "available",
            "alive": True,
            "tag_ids": list(tag_ids),
            "upload_date": None,
            "content_type": None,
            "source_digest": digest,
            "text_revision": 1,
            "tags_revision": 1,
            "metadata_revision": 1,
            "deleted_revision": None,
            "changed_at": None,
            "metadata": {},
            "accepted_revision": 1,
            "unsendable_messages": [],
            "knowledge_bases": [],
        }

    def answer(self, request: httpx.Request) -> httpx.Response:
        path, query = request.url.path.removeprefix("/v0/orgs/acme/"), request.url.params
        self.requests.append(path)
        if path != "documents":
            found = self.documents.get(path.removeprefix("documents/"))
            return httpx.Response(404, json={}) if found is None else httpx.Response(200, json=found)
        listed = [each for name, each in sorted(self.documents.items()) if name.startswith(query["id_prefix"])]
        start = int(query.get("cursor", 0))
        end = start + int(query["limit"])
        next_cursor = str(end) if end < len(listed) else None
        page = {"documents": listed[start:end], "total_count": len(listed), "next_cursor": next_cursor}
        return httpx.Response(200, json=page)


@pytest.fixture
def server() -> DocumentServer:
    return DocumentServer()


@pytest.fixture
async def client(server: DocumentServer) -> AsyncIterator[AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(server.answer)) as http:
        yield AsyncClient("http://kb.test", organization="acme", api_key="kb_a_secret", http=http)


async def test_a_folder_is_read_by_the_hundred(server: DocumentServer, client: AsyncClient) -> None:
    ids = [make_document_id("handbook", relative_path=f"{number}.md") for number in range(250)]
    for each in ids:
        server.add(each)
    server.add("handbook2.a-1")
    found = await read_folders(client, ["handbook"], wanted=ids, all_of_them=False)
    assert found.keys() == set(ids)
    assert server.requests == ["documents"] * 3


async def test_one_file_of_a_large_folder_does_not_read_the_folder(server: DocumentServer, client: AsyncClient) -> None:
    for number in range(1_000):
        server.add(f"{id_prefix('handbook')}{number}")
    wanted = [f"{id_prefix('handbook')}7"]
    found = await read_folders(client, ["handbook"], wanted=wanted, all_of_them=False)
    assert found.keys() == set(wanted)
    assert server.requests == ["documents", f"documents/{wanted[0]}"]
    assert len(await read_folders(client, ["handbook"], wanted=wanted, all_of_them=True)) == 1_000


async def test_a_changed_file_keeps_the_tags_that_others_gave_its_document(
    server: DocumentServer, client: AsyncClient, tmp_path: Path
) -> None:
    for name in ("changed.md", "touched.md", "new.md"):
        (tmp_path / name).write_text(name)
    found = {each.relative_path: each for each in find_files([tmp_path]).files}
    server.add(found["changed.md"].document_id, "an earlier one", tag_ids=("handbook", "of-others"))
    touched = digest_file(found["touched.md"])
    assert isinstance(touched, str)
    server.add(found["touched.md"].document_id, touched)

    server.add("gone")
    server.add("gone-of-others", tag_ids=("of-others",))
    changes = FileChanges(tuple(found.values()), frozenset({"gone", "gone-of-others", "gone-before"}))
    plan, _ = await plan_changes(client, changes, tag_ids=["handbook"], prune=False)
    assert plan.sends == {
        found["changed.md"].document_id: {"handbook", "of-others"},
        found["new.md"].document_id: {"handbook"},
    }
    assert plan.deletes == frozenset()
    plan, stored = await plan_changes(client, changes, tag_ids=["handbook"], prune=True)
    assert [stored[each].shown_name for each in plan.deletes] == ["A (gone)"]


def test_a_watched_folder_that_vanished_or_was_emptied_stops_the_watch_and_says_so(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("a")
    request = PushRequest([str(docs)], prune=True)
    sources = {each.source for each in request.find_files().files}
    assert find_obstacles(request.find_files(), sources=sources, request=request) == []
    (docs / "a.md").unlink()
    [emptied] = find_obstacles(request.find_files(), sources=sources, request=request)
    assert "docs has no file any more" in emptied
    meant = replace(request, yes=True)
    assert find_obstacles(meant.find_files(), sources=sources, request=meant) == []
    docs.rmdir()
    for each in (request, meant):
        assert "no such file or folder" in find_obstacles(each.find_files(), sources=sources, request=each)[0]


def test_an_obstacle_is_told_once_and_so_is_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    obstacles = Obstacles()
    announced = [obstacles.tell(each) for each in ([], ["it is gone"], ["it is gone"], [], [])]
    assert announced == [False, True, True, False, False]
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["not watching", "watching again"]
