"""Entries are found by search, and what is known about an entity is retrieved from three layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from kb_contracts.knowledge.entities import ANY_ENTITY, Entity
from kb_contracts.knowledge.graph import GraphEdge, GraphNode
from kb_contracts.reserved_ids import document_id_of
from kb_search.knowledge.fit_pieces import fit_pieces
from kb_search.settings import SearchSettings
from kb_shared.mongo import entities, knowledge_entries, knowledge_graph, query_log
from kb_shared.mongo.database import Database, in_transaction
from kb_shared.mongo.knowledge_bases import KnowledgeBaseKind
from kb_shared.mongo.knowledge_entries import KnowledgeEntry, hash_content
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, SearchingCaller, key_for
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create
from tests.unit.knowledge import states
from tests.waiting import until

ALICE: Final = "user:alice"
SEARCH: Final = f"/v0/orgs/{ORGANIZATION}/knowledge/search"
RETRIEVE: Final = f"/v0/orgs/{ORGANIZATION}/knowledge:retrieve"


@dataclass(frozen=True)
class Entries:
    """The KB of entries of an organization."""

    knowledge: Knowledge

    @property
    def database(self) -> Database:
        return self.knowledge.database

    async def add(self, entry_id: str, content: str, *, indexed: bool = True, **fields: Any) -> None:
        """Store an entry as the service of curated knowledge does, and index it as the indexer does."""
        at = datetime.now(UTC)
        entry = KnowledgeEntry(
            organization_id=self.knowledge.kb.organization_id,
            entry_id=entry_id,
            title=f"Title of {entry_id}",
            content=content,
            tags=tuple(fields.pop("tags", ())),
            type=fields.pop("type", "note"),
            revision=1,
            content_hash=hash_content(content),
            created_at=at,
            updated_at=at,
            created_by="key",
            updated_by="key",
            **fields,
        )
        await in_transaction(self.database, lambda session: knowledge_entries.insert(self.database, session, entry))
        if indexed:
            await self.index(entry, [content])

    async def index(self, entry: KnowledgeEntry, texts: Sequence[str]) -> None:
        names = ("type", "source_kind", "knowledge_type", "info_type")
        metadata = {name: value for name in names if (value := getattr(entry, name)) is not None}
        await self.knowledge.index(
            DocumentToIndex(
                document_id_of(entry.entry_id),
                texts,
                name=entry.title,
                tag_ids=["kb.knowledge", *entry.tags],
                metadata={**metadata, "entity_id": entry.entity_id or ANY_ENTITY},
            )
        )


@pytest.fixture
async def entries(search_database: Database) -> Entries:
    return Entries(await create(search_database, ORGANIZATION, kind=KnowledgeBaseKind.KNOWLEDGE))


async def _get(searcher: SearchingCaller, **query: Any) -> Any:
    answer = await searcher.http.get(SEARCH, params=query, headers={"Authorization": f"Bearer {searcher.key}"})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _retrieve(searcher: SearchingCaller, **body: Any) -> Any:
    answer = await searcher.post(RETRIEVE, body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _put_graph(database: Database, *edges: GraphEdge) -> None:
    node_ids = sorted({node_id for edge in edges for node_id in (edge.source_id, edge.target_id)})
    labels = {"technique:les": "LES simulation expert"} | {
        "technique:dynamic-smagorinsky": "15% better spectral agreement on JN-042"
    }
    nodes = [
        GraphNode(node_id=node_id, node_type=node_id.partition(":")[0], label=labels.get(node_id))
        for node_id in node_ids
    ]
    await knowledge_graph.put_nodes(database, ORGANIZATION, nodes, by="key")
    await knowledge_graph.put_edges(database, ORGANIZATION, edges, by="key")


async def test_a_search_finds_passages_of_entries_and_applies_types_before_it_ranks(
    entries: Entries, searcher: SearchingCaller
) -> None:
    await entries.add("best", "tunnel tunnel tunnel", type="note")
    await entries.add("rule-1", "The tunnel closes at noon.", type="rule")
    await entries.add("page-1", "A page about the tunnel.", source_kind="url_crawl", source_id="s1")
    found = await _get(searcher, q="tunnel", limit=1, types="rule,url_crawl")
    assert [hit["entry_id"] for hit in found["hits"]] != ["best"]
    found = await _get(searcher, q="tunnel", types="rule,url_crawl")
    assert {hit["entry_id"] for hit in found["hits"]} == {"rule-1", "page-1"}
    (rule,) = [hit for hit in found["hits"] if hit["entry_id"] == "rule-1"]
    assert set(rule) == {"entry_id", "chunk_id", "strength", "score", "content", "entry_title"}
    assert (rule["content"], rule["entry_title"]) == ("The tunnel closes at noon.", "Title of rule-1")
    assert rule["chunk_id"].startswith("entry-rule-1:")
    assert 0.3 <= rule["score"] <= 1
    assert {hit["entry_id"] for hit in (await _get(searcher, q="tunnel"))["hits"]} == {"best", "rule-1", "page-1"}


@pytest.mark.parametrize(
    "query",
    [
        {"q": ""},
        {"q": "x" * 1_001},
        {"q": "x", "limit": 0},
        {"q": "x", "limit": 101},
        {"q": "x", "types": "Rule"},
        {"q": "x", "types": ","},
        {"q": "x", "origin": "browser"},
        {"q": "x", "more": "1"},
    ],
)
async def test_an_unusable_search_is_refused(searcher: SearchingCaller, query: dict[str, Any]) -> None:
    answer = await searcher.http.get(SEARCH, params=query, headers={"Authorization": f"Bearer {searcher.key}"})
    assert answer.status_code == 422


async def test_each_search_is_logged_with_its_origin_and_agent_also_one_before_the_first_entry(
    searcher: SearchingCaller, search_database: Database
) -> None:
    assert (await _get(searcher, q="tunnel", origin="dashboard", agent_id="agent-1"))["hits"] == []

    async def logged() -> bool:
        return await search_database[query_log.NAME].count_documents({}) == 1

    await until(logged, what="the search in the log")
    row = await search_database[query_log.NAME].find_one()
    assert row is not None
    assert (row["origin"], row["agent_id"], row["result_count"], row["query"]) == ("console", "agent-1", 0, "tunnel")


async def test_three_layers_give_the_golden_text_and_sections(
    entries: Entries, searcher: SearchingCaller, search_database: Database
) -> None:
    records = [
        Entity(entity_id=ALICE, entity_type="user", properties=dict(states.METADATA)),
        Entity(entity_id="global", entity_type="global", properties={"organization": "NASA"}),
    ]
    await entities.put_all(search_database, ORGANIZATION, records, by="key")
    for piece in (states.PROCEDURE, states.FACT):
        await entries.add(
            piece.piece_id,
            piece.content,
            tags=piece.tags,
            knowledge_type=piece.knowledge_type,
            info_type=piece.info_type,
        )
    await _put_graph(
        search_database,
        GraphEdge(source_id=ALICE, edge_type="SPECIALIZES_IN", target_id="technique:les"),
        GraphEdge(
            source_id=ALICE,
            edge_type="USES",
            target_id="technique:dynamic-smagorinsky",
            properties={"piece_id": "les-rans-init"},
        ),
    )
    answer = await _retrieve(searcher, query="Smagorinsky constant", entity_id=ALICE)
    assert [(piece["piece_id"], piece["tags"]) for piece in answer["pieces"]] == [
        ("les-rans-init", ["les", "initialization", "rans"]),
        ("smagorinsky", ["les", "smagorinsky"]),
    ]
    assert answer["pieces"][0]["score"] == 1.0
    assert 0 < answer["pieces"][1]["score"] <= 1
    assert (answer["metadata"], answer["global_metadata"]) == (states.METADATA, {"organization": "NASA"})
    assert [edge["relation_type"] for edge in answer["graph_context"]] == ["SPECIALIZES_IN", "USES"]
    assert answer["sections"] == {
        "user_profile": "specialization: turbomachinery\nteam: aero\norganization: NASA\n"
        "SPECIALIZES_IN → Technique:les (LES simulation expert)",
        "instructions": f"[procedure] {states.PROCEDURE.content}\n"
        "USES → Technique:dynamic-smagorinsky (15% better spectral agreement on JN-042)",
        "context": f"[fact] {states.FACT.content}",
    }


async def test_only_pieces_of_the_entity_and_of_all_are_found(entries: Entries, searcher: SearchingCaller) -> None:
    await entries.add("for-all", "The tunnel closes at noon.", knowledge_type="fact")
    await entries.add("of-alice", "Alice books the tunnel.", knowledge_type="preference", entity_id=ALICE)
    await entries.add("of-bob", "Bob books the tunnel.", knowledge_type="preference", entity_id="user:bob")
    await entries.add("no-piece", "The tunnel is long.")

    async def found(**body: Any) -> set[str]:
        return {piece["piece_id"] for piece in (await _retrieve(searcher, query="tunnel", **body))["pieces"]}

    assert await found() == {"for-all"}
    assert await found(entity_id=ALICE) == {"for-all", "of-alice"}
    assert await found(entity_id=ALICE, knowledge_types=["PREFERENCE"]) == {"of-alice"}
    assert await found(entity_id=ALICE, info_types=["skills"]) == set()
    assert await found(entity_id=ALICE, tags=["other"]) == set()
    assert len(await found(entity_id=ALICE, top_k=1)) == 1


async def test_a_blank_query_returns_linked_pieces_and_costs_nothing(
    entries: Entries, searcher: SearchingCaller, search_database: Database
) -> None:
    await entries.add("far", "Far away.", indexed=False, knowledge_type="fact")
    await entries.add("searched", "Anything.", knowledge_type="fact")
    await _put_graph(
        search_database,
        GraphEdge(source_id=ALICE, edge_type="KNOWS", target_id="user:bob"),
        GraphEdge(source_id="user:bob", edge_type="USES", target_id="tool:x", properties={"piece_id": "far"}),
        GraphEdge(source_id="tool:x", edge_type="NEEDS", target_id="tool:y", properties={"piece_id": "missing"}),
    )
    answer = await _retrieve(searcher, query=" ", entity_id=ALICE, depth=3)
    assert [(piece["piece_id"], piece["score"]) for piece in answer["pieces"]] == [("far", 0.5)]
    assert [edge["depth"] for edge in answer["graph_context"]] == [1, 2, 3]
    assert answer["sections"] == {
        "user_profile": "KNOWS → User:bob",
        "context": "[fact] Far away.\nNEEDS → Tool:y\nUSES → Tool:x",
    }
    assert answer["spu_charged"] == 0
    assert (await _retrieve(searcher, query=" ", entity_id=ALICE, depth=0))["graph_context"] == []


async def test_a_missing_entity_has_empty_metadata_before_the_first_entry(searcher: SearchingCaller) -> None:
    answer = await _retrieve(searcher, query="anything", entity_id="user:carol")
    assert (answer["metadata"], answer["pieces"], answer["graph_context"], answer["sections"]) == ({}, [], [], {})


async def test_templates_write_sections_and_an_unusable_one_is_named(
    entries: Entries, searcher: SearchingCaller
) -> None:
    await entries.add("for-all", "The tunnel closes at noon.", knowledge_type="fact")
    template = {"kind": "handlebars", "template": "{{#each pieces}}* {{content}}{{/each}}"}
    answer = await _retrieve(searcher, query="tunnel", formatters={"context": template})
    assert answer["sections"] == {"context": "* The tunnel closes at noon."}
    for text in (
        "{{ 'a' * 10 ** 9 }}",
        "{% for a in text|list %}{% endfor %}",
        "{% set a = text %}" + "{% set a = a ~ a %}" * 60,
    ):
        refused = await searcher.post(
            RETRIEVE, {"query": "tunnel", "formatters": {"context": {"kind": "jinja2", "template": text}}}
        )
        assert refused.status_code == 422
        assert refused.json()["fields"][0]["field"] == "formatters.context.template"


async def test_nothing_of_another_organization_is_retrieved(
    entries: Entries, new_searcher: NewSearcher, search_database: Database
) -> None:
    await entries.add("secret", "The canary sings.", knowledge_type="fact")
    await _put_graph(
        search_database,
        GraphEdge(source_id=ALICE, edge_type="KNOWS", target_id="user:bob", properties={"piece_id": "secret"}),
    )
    await entities.put_all(
        search_database, ORGANIZATION, [Entity(entity_id=ALICE, entity_type="user", properties={"a": "b"})], by="key"
    )
    other = await new_searcher("globex")
    path = RETRIEVE.replace(ORGANIZATION, "globex")
    answer = (await other.post(path, {"query": "canary", "entity_id": ALICE})).json()
    assert (answer["pieces"], answer["graph_context"], answer["metadata"]) == ([], [], {})
    named = await other.post(path, {"query": "canary", "kb_ids": [entries.knowledge.kb.kb_id]})
    assert named.status_code == 404


async def test_a_key_for_other_knowledge_bases_finds_no_entries(
    entries: Entries, searcher: SearchingCaller, search_database: Database, settings: SearchSettings
) -> None:
    await entries.add("for-all", "The tunnel closes at noon.")
    limited = await key_for(search_database, settings, ORGANIZATION, kb_ids=("65f1c2a3b4d5e6f708192a3b",))
    assert (await _get(SearchingCaller(searcher.http, limited), q="tunnel"))["hits"] == []
    own = await key_for(search_database, settings, ORGANIZATION, kb_ids=(entries.knowledge.kb.kb_id,))
    assert len((await _get(SearchingCaller(searcher.http, own), q="tunnel"))["hits"]) == 1


def test_pieces_are_kept_whole_as_long_as_they_fit() -> None:
    texts = {"a": 6, "b": 5, "c": 4}
    pieces = [states.FACT.model_copy(update={"piece_id": name, "content": "x" * n}) for name, n in texts.items()]
    fitting = fit_pieces(pieces, max_characters=10)
    assert [piece.piece_id for piece in fitting.pieces] == ["a", "c"]
    assert fitting.omitted_count == 1
