from typing import Any

import httpx

from kb_contracts import topics
from kb_knowledge.settings import KnowledgeSettings
from tests.integration.knowledge.author import Author
from tests.integration.knowledge.calls import answer, call, problem

LEAK = "The vault opens with password: hunter2x!"
DOCUMENT: dict[str, Any] = {
    "metadata": {"user:alice": {"entity_type": "user", "properties": {"specialization": "turbomachinery"}}},
    "pieces": [
        {"piece_id": "rans", "content": "Initialize LES from RANS", "knowledge_type": "procedure", "tags": ["les"]},
        {"piece_id": "vault", "content": LEAK, "knowledge_type": "fact"},
        {"piece_id": "empty", "content": " ", "knowledge_type": "fact"},
        {"piece_id": "opinion", "content": "LES is better", "knowledge_type": "opinion"},
        {"content": "Constant of 0.1 works", "knowledge_type": "FACT", "entity_id": "user:alice"},
    ],
    "graph": {
        "nodes": [
            {"node_id": "user:alice", "node_type": "user"},
            {"node_id": "technique:les", "node_type": "technique", "label": "LES"},
        ],
        "edges": [
            {
                "source_id": "user:alice",
                "edge_type": "SPECIALIZES_IN",
                "target_id": "technique:les",
                "properties": {"piece_id": "rans"},
            },
            {"source_id": "user:alice", "edge_type": "USES", "target_id": "technique:missing"},
        ],
    },
}
LOADED = {"metadata": 1, "pieces": 2, "nodes": 2, "edges": 1}
NOTHING = {"metadata": 0, "pieces": 0, "nodes": 0, "edges": 0}


async def run_import(author: Author, document: object = DOCUMENT, **query: object) -> Any:
    return await answer(author, "POST", "/knowledge:import", json=document, params=query)


async def stored_rows(author: Author) -> dict[str, list[Any]]:
    names = ("entities", "graph_nodes", "graph_edges", "knowledge_entries", "outbox")
    organization = {"organization_id": author.organization_id}
    queries = dict.fromkeys(names, organization) | {"outbox": {"key": {"$regex": f"^{author.organization_id}/"}}}
    return {name: await author.database[name].find(queries[name]).sort("_id").to_list() for name in names}


async def test_four_bad_items_are_skipped_and_a_second_import_changes_nothing(author: Author) -> None:
    planned = await run_import(author, dry_run=True)
    assert not any((await stored_rows(author)).values())
    report = await run_import(author)
    assert report == planned | {"dry_run": False}
    assert (report["loaded"], report["changed"]) == (LOADED, LOADED)
    skipped = {(each["section"], each["index"]): (each["id"], each["reason"]) for each in report["skipped"]}
    assert {place: each[0] for place, each in skipped.items()} == {
        ("pieces", 1): "vault",
        ("pieces", 2): "empty",
        ("pieces", 3): "opinion",
        ("graph.edges", 1): "user:alice USES technique:missing",
    }
    assert skipped["pieces", 1][1] == "content contains a credential (password) in line 1; remove it"
    assert "technique:missing" in skipped["graph.edges", 1][1]
    assert "hunter" not in str(report)
    rows = await stored_rows(author)
    assert len([each for each in rows["outbox"] if each["topic"] == topics.KNOWLEDGE_DOCUMENT_EVENTS.name]) == 2
    again = await run_import(author)
    assert (again["loaded"], again["changed"], again["skipped"]) == (LOADED, NOTHING, report["skipped"])
    assert await stored_rows(author) == rows


async def test_what_was_imported_is_retrieved_and_the_linked_piece_has_score_1(
    author: Author, search_http: httpx.AsyncClient
) -> None:
    await run_import(author)
    await author.build_knowledge_base()
    await author.index()
    response = await search_http.post(
        f"/v0/orgs/{author.organization_id}/knowledge:retrieve",
        json={"query": "Which constant works?", "entity_id": "user:alice"},
        headers={"Authorization": f"Bearer {author.key}"},
    )
    retrieved = response.raise_for_status().json()
    assert (retrieved["pieces"][0]["piece_id"], retrieved["pieces"][0]["score"]) == ("rans", 1.0)
    assert [piece["content"] for piece in retrieved["pieces"]] == ["Initialize LES from RANS", "Constant of 0.1 works"]
    assert 0 < retrieved["pieces"][1]["score"] < 1
    assert retrieved["sections"] == {
        "user_profile": "specialization: turbomachinery",
        "context": "[procedure] Initialize LES from RANS\n---\n[fact] Constant of 0.1 works\n"
        "SPECIALIZES_IN → Technique:les (LES)",
    }


async def test_a_changed_item_alone_is_written(author: Author) -> None:
    await run_import(author)
    before = await stored_rows(author)
    changed = {
        "pieces": [DOCUMENT["pieces"][0] | {"content": "Initialize LES from converged RANS"}, DOCUMENT["pieces"][4]]
    }
    assert (await run_import(author, changed))["changed"] == NOTHING | {"pieces": 1}
    after = await stored_rows(author)
    assert len(after["outbox"]) == len(before["outbox"]) + 1
    assert after["graph_edges"] == before["graph_edges"]
    [entry] = [each for each in after["knowledge_entries"] if each["entry_id"] == "rans"]
    assert (entry["content"], entry["embedding_status"]) == ("Initialize LES from converged RANS", "pending")


async def test_only_unreadable_json_is_refused(author: Author) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b'{"pieces": [', b'{"a": NaN}', b'{"pieces": 1, "pieces": 2}'):
        refusal = await problem(author, "POST", "/knowledge:import", content=body, headers=headers)
        assert refusal == (422, "malformed-json")
    odd = {"metadata": [], "pieces": {}, "graph": {"nodes": 1, "edges": None}, "extra": 1}
    report = await run_import(author, odd)
    assert report["loaded"] == NOTHING
    assert {each["section"] for each in report["skipped"]} == {"document", "metadata", "pieces", "graph.nodes"}
    many: dict[str, Any] = {"pieces": [{}] * 10_001}
    too_many = (await call(author, "POST", "/knowledge:import", json=many)).json()
    assert (too_many["status"], too_many["type"]) == (413, "body-too-large")
    in_parts = "Import it in parts, each of at most 10,000 items and 20 MB, with nodes before their edges."
    assert too_many["detail"] == f"The document has 10,001 items. {in_parts}"
    too_long = (await call(author, "POST", "/knowledge:import", content=b" " * 20_000_001)).json()
    assert (too_long["status"], too_long["detail"]) == (413, f"Send at most 20000000 bytes. {in_parts}")


async def test_what_is_beyond_a_limit_is_skipped(author: Author, settings: KnowledgeSettings) -> None:
    nodes = [{"node_id": f"n{number}", "node_type": "thing"} for number in range(settings.max_graph_nodes + 2)]
    report = await run_import(author, {"graph": {"nodes": nodes}})
    assert (report["loaded"]["nodes"], len(report["skipped"])) == (settings.max_graph_nodes, 2)
    assert "KB_MAX_GRAPH_NODES" in report["skipped"][0]["reason"]
    assert (await run_import(author, {"graph": {"nodes": nodes}}))["changed"] == NOTHING


async def test_ten_thousand_items_are_imported(author: Author) -> None:
    entities = {f"user:{number}": {"entity_type": "user"} for number in range(10_000)}
    response = await call(author, "POST", "/knowledge:import", json={"metadata": entities}, params={"dry_run": True})
    assert response.is_success
    assert len(response.json()["skipped"]) == 10_000 - response.json()["loaded"]["metadata"]
