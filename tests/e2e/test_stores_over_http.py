"""The stores over HTTP keep what the protocols promise, on a running system."""

import time
from collections.abc import Iterator
from typing import Final

import httpx
import pytest

from kb_client import Client
from kb_client.knowledge import KnowledgePiece, KnowledgeStores, RetrievedPiece, open_stores
from kb_client.knowledge.http_stores import HttpPieceStore
from kb_client.knowledge.stores import PieceFilter
from kb_local.ports import NO_TLS
from tests.contract.knowledge_store_suite import KnowledgeStoreSuite
from tests.e2e.operations.stocking import add_organization
from tests.e2e.running_system import RunningSystem
from tests.waiting import DEADLINE_S

_POLL_S: Final = 0.05


class _IndexedPieceStore(HttpPieceStore):
    """Pieces whose changes are in the index as soon as a search begins."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._contents: dict[str, str] = {}
        """By piece, the content that is in the index or on its way."""
        self._changed: set[str] = set()

    def put(self, piece: KnowledgePiece) -> None:
        super().put(piece)
        self._contents[piece.piece_id] = piece.content
        self._changed.add(piece.piece_id)

    def delete(self, piece_id: str) -> None:
        super().delete(piece_id)
        if piece_id in self._contents:
            self._changed.add(piece_id)

    def search(self, query: str, *, top_k: int, among: PieceFilter) -> list[RetrievedPiece]:
        self.wait_for_index()
        return super().search(query, top_k=top_k, among=among)

    def delete_all(self) -> None:
        """Delete what was put. Until then, pieces that another test puts with these ids would seem to be found."""
        for piece_id in self._contents:
            self.delete(piece_id)
        self.wait_for_index()

    def wait_for_index(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self._changed:
            assert time.monotonic() < deadline, f"the index has not followed the changes of {sorted(self._changed)}"
            self._changed -= {piece_id for piece_id in self._changed if self._index_follows(piece_id)}
            time.sleep(_POLL_S)

    def _index_follows(self, piece_id: str) -> bool:
        stored = self.find(piece_id)
        hits = self._client.knowledge.search(self._contents[piece_id], limit=100).hits
        found = [hit.content for hit in hits if hit.entry_id == piece_id]
        return found == ([] if stored is None else [stored.content])


@pytest.fixture(scope="module")
async def curator(running: RunningSystem) -> tuple[str, str]:
    """Organization and key that only these tests use."""
    key, whole_key = await add_organization(running)
    return key.organization_id, whole_key


@pytest.fixture
def client(running: RunningSystem, curator: tuple[str, str]) -> Iterator[Client]:
    organization_id, api_key = curator
    with (
        httpx.Client(trust_env=False, verify=NO_TLS) as http,
        Client(running.system.stack.base_url, organization=organization_id, api_key=api_key, http=http) as client,
    ):
        yield client
        for entity in client.entities.list.iterate():
            client.entities.delete(entity.entity_id)
        for node in client.graph.list_nodes.iterate():
            client.graph.delete_node(node.node_id)


class TestHttpStores(KnowledgeStoreSuite):
    @pytest.fixture
    def stores(self, client: Client) -> Iterator[KnowledgeStores]:
        pieces = _IndexedPieceStore(client)
        yield open_stores("http", client=client)._replace(piece_store=pieces)
        pieces.delete_all()
