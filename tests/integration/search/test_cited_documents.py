"""Which documents no run cites, however many others are cited."""

from datetime import UTC, datetime

import bson

from kb_search.store import runs
from kb_shared.mongo.database import Database
from tests.integration.indexer.support import CommandLog
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create

MANY = 2_000


async def cite(database: Database, kb_id: str, document_ids: list[str], *, organization_id: str = ORGANIZATION) -> None:
    citations = [{"kb_id": kb_id, "document_id": one, "source": one} for one in document_ids]
    row = {"organization_id": organization_id, "started_at": datetime.now(UTC), "citations": citations}
    await database[runs.NAME].insert_one(row)


async def test_commands_for_documents_that_are_never_cited_do_not_grow_with_cited_ones(
    watched: SearchingCaller, knowledge: Knowledge, search_database: Database, command_log: CommandLog
) -> None:
    other = await create(search_database, ORGANIZATION)
    for document_id in ("cited", "fresh", "unread", "worn"):
        await knowledge.index(DocumentToIndex(document_id, [document_id], name=f"{document_id}.md"), searchable=False)
    await cite(search_database, knowledge.kb.kb_id, ["cited", *(f"left {n}" for n in range(MANY))])
    await cite(search_database, knowledge.kb.kb_id, ["cited", "worn"])
    # Neither in another KB nor by another organization.
    await cite(search_database, other.kb.kb_id, ["fresh"])
    await cite(search_database, knowledge.kb.kb_id, ["unread"], organization_id="other")
    path = f"/v0/orgs/{ORGANIZATION}/insights/knowledge-bases/{knowledge.kb.kb_id}/documents?by=never_cited"
    headers = {"Authorization": f"Bearer {watched.key}"}
    command_log.clear()
    answer = (await watched.http.get(path, headers=headers)).json()
    assert [(one["document_id"], one["document_name"]) for one in answer["documents"]] == [
        ("fresh", "fresh.md"),
        ("unread", "unread.md"),
    ]
    assert answer["total_count"] == 2
    second = (await watched.http.get(f"{path}&skip=1&limit=1", headers=headers)).json()
    assert ([one["document_id"] for one in second["documents"]], second["total_count"]) == (["unread"], 2)
    assert max(len(bson.encode(command)) for command in command_log.commands) < MANY * len("left 0")
