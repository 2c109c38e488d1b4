"""One suite for the stores of curated knowledge: a back end keeps what the protocols promise.

The tests of a back end derive a class from it, with a fixture `stores` that returns empty stores.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import pytest

from kb_client.knowledge import (
    Entity,
    GraphEdge,
    GraphNode,
    KnowledgePiece,
    KnowledgeStores,
    MissingNode,
)
from kb_client.knowledge.stores import PieceFilter

ANY: Final = PieceFilter()
LES: Final = KnowledgePiece(
    piece_id="les-init",
    content="Initialize transient LES from converged RANS.",
    knowledge_type="procedure",
    info_type="instructions",
    tags=["les", "rans"],
)
OF_ALICE: Final = KnowledgePiece(
    piece_id="alice-rans", content="Alice prefers RANS.", knowledge_type="preference", entity_id="user:alice"
)


def found(stores: KnowledgeStores, query: str, among: PieceFilter = ANY, top_k: int = 5) -> list[str]:
    return [piece.piece_id for piece in stores.piece_store.search(query, top_k=top_k, among=among)]


def put_graph(stores: KnowledgeStores) -> None:
    graph = stores.graph_store
    for node_id in ("user:alice", "technique:les", "method:cfd", "tool:mesh"):
        graph.put_node(GraphNode(node_id=node_id, node_type=node_id.partition(":")[0], label=f"Label of {node_id}"))
    for source_id, edge_type, target_id in (
        ("user:alice", "USES", "tool:mesh"),
        ("user:alice", "KNOWS", "technique:les"),
        ("technique:les", "PART_OF", "method:cfd"),
        ("method:cfd", "KNOWN_BY", "user:alice"),
    ):
        graph.put_edge(GraphEdge(source_id=source_id, edge_type=edge_type, target_id=target_id))


class KnowledgeStoreSuite:
    def test_an_entity_is_read_as_it_was_put_and_replaced_as_a_whole(self, stores: KnowledgeStores) -> None:
        metadata = stores.metadata_store
        assert metadata.find("user:alice") is None
        since = {"since": datetime(2026, 1, 31, tzinfo=UTC)}
        properties = {"team": "aero", "active": True, "age": 41, "share": 0.5, **since}
        alice = Entity.model_validate({"entity_id": "user:alice", "entity_type": "user", "properties": properties})
        metadata.put(alice)
        assert metadata.find("user:alice") == alice
        metadata.put(Entity(entity_id="user:alice", entity_type="user", properties={"team": "hull"}))
        replaced = metadata.find("user:alice")
        assert replaced is not None
        assert replaced.properties == {"team": "hull"}

    def test_the_global_record_is_an_entity(self, stores: KnowledgeStores) -> None:
        record = Entity(entity_id="global", entity_type="global", properties={"organization": "NASA"})
        stores.metadata_store.put(record)
        assert stores.metadata_store.find("global") == record

    def test_what_was_deleted_is_gone_and_can_be_deleted_again(self, stores: KnowledgeStores) -> None:
        stores.metadata_store.put(Entity(entity_id="user:bob", entity_type="user"))
        stores.piece_store.put(LES)
        stores.graph_store.put_node(GraphNode(node_id="user:bob", node_type="user"))
        for _ in range(2):
            stores.metadata_store.delete("user:bob")
            stores.piece_store.delete(LES.piece_id)
            stores.graph_store.delete_node("user:bob")
        assert stores.metadata_store.find("user:bob") is None
        assert stores.piece_store.find(LES.piece_id) is None
        assert stores.graph_store.find_node("user:bob") is None
        assert found(stores, "RANS") == []

    def test_a_piece_is_read_as_it_was_put_and_replaced_as_a_whole(self, stores: KnowledgeStores) -> None:
        stores.piece_store.put(LES)
        assert stores.piece_store.find("les-init") == LES
        changed = LES.model_copy(update={"content": "Never start from RANS.", "knowledge_type": "fact", "tags": []})
        changed = changed.model_copy(update={"embedding_text": "What must a transient run not start from?"})
        stores.piece_store.put(changed)
        assert stores.piece_store.find("les-init") == changed

    def test_pieces_of_the_entity_and_those_for_all_are_found_with_scores(self, stores: KnowledgeStores) -> None:
        of_bob = OF_ALICE.model_copy(update={"piece_id": "bob-rans", "entity_id": "user:bob"})
        for piece in (LES, OF_ALICE, of_bob):
            stores.piece_store.put(piece)
        assert set(found(stores, "RANS", PieceFilter(entity_id="user:alice"))) == {"les-init", "alice-rans"}
        assert found(stores, "RANS") == ["les-init"]
        hits = stores.piece_store.search("RANS", top_k=5, among=PieceFilter(entity_id="user:bob"))
        assert [(-hit.score, hit.piece_id) for hit in hits] == sorted((-hit.score, hit.piece_id) for hit in hits)
        assert all(0 < hit.score <= 1 for hit in hits)
        assert hits[0].content in {LES.content, of_bob.content}

    def test_a_search_finds_only_pieces_that_the_filter_admits(self, stores: KnowledgeStores) -> None:
        stores.piece_store.put(LES)
        stores.piece_store.put(OF_ALICE)
        of_alice = PieceFilter(entity_id="user:alice")
        assert found(stores, "RANS", replace(of_alice, knowledge_types=["preference"])) == ["alice-rans"]
        assert found(stores, "RANS", replace(of_alice, info_types=["instructions", "skills"])) == ["les-init"]
        assert found(stores, "RANS", replace(of_alice, tags=["les", "other"])) == ["les-init"]
        assert found(stores, "RANS", replace(of_alice, tags=["other"])) == []
        assert found(stores, "RANS", replace(of_alice, knowledge_types=[])) == []

    def test_a_search_returns_no_more_pieces_than_were_asked_for(self, stores: KnowledgeStores) -> None:
        for number in range(4):
            stores.piece_store.put(LES.model_copy(update={"piece_id": f"p{number}"}))
        assert len(found(stores, "RANS", top_k=3)) == 3

    def test_edges_are_followed_in_their_direction_up_to_the_depth(self, stores: KnowledgeStores) -> None:
        put_graph(stores)
        relations = stores.graph_store.find_relations("user:alice", depth=2)
        assert [
            (each.depth, each.relation_type, each.target_node_id, each.target_type, each.label) for each in relations
        ] == [
            (1, "KNOWS", "technique:les", "technique", "Label of technique:les"),
            (1, "USES", "tool:mesh", "tool", "Label of tool:mesh"),
            (2, "PART_OF", "method:cfd", "method", "Label of method:cfd"),
        ]
        assert len(stores.graph_store.find_relations("user:alice", depth=1)) == 2
        assert stores.graph_store.find_relations("user:carol", depth=2) == []

    def test_a_cycle_in_the_graph_ends(self, stores: KnowledgeStores) -> None:
        put_graph(stores)
        relations = stores.graph_store.find_relations("user:alice", depth=4)
        assert [(each.depth, each.relation_type) for each in relations] == [
            (1, "KNOWS"),
            (1, "USES"),
            (2, "PART_OF"),
            (3, "KNOWN_BY"),
        ]

    def test_an_edge_needs_both_nodes(self, stores: KnowledgeStores) -> None:
        stores.graph_store.put_node(GraphNode(node_id="user:alice", node_type="user"))
        with pytest.raises(MissingNode):
            stores.graph_store.put_edge(GraphEdge(source_id="user:alice", target_id="tool:mesh", edge_type="USES"))
        assert stores.graph_store.find_relations("user:alice", depth=1) == []

    def test_an_edge_is_replaced_by_one_with_the_same_ends_and_type(self, stores: KnowledgeStores) -> None:
        put_graph(stores)
        edge = GraphEdge(
            source_id="user:alice",
            edge_type="USES",
            target_id="tool:mesh",
            properties={"piece_id": "les-init", "year": 2026},
        )
        stores.graph_store.put_edge(edge)
        (uses,) = [
            each for each in stores.graph_store.find_relations("user:alice", depth=1) if each.relation_type == "USES"
        ]
        assert uses.piece_id == "les-init"
        assert uses.properties == {"piece_id": "les-init", "year": 2026}

    def test_a_deleted_node_takes_its_edges_with_it(self, stores: KnowledgeStores) -> None:
        put_graph(stores)
        stores.graph_store.delete_node("technique:les")
        relations = stores.graph_store.find_relations("user:alice", depth=4)
        assert [each.relation_type for each in relations] == ["USES"]
