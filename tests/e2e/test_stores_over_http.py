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


class _SettledPieceStore(HttpPieceStore):
    """Pieces that can be found as soon as a search begins."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._unsettled: dict[str, KnowledgePiece] = {}

    def put(self, piece: KnowledgePiece) -> None:
        super().put(piece)
        self._unsettled[piece.piece_id] = piece

    def delete(self, piece_id: str) -> None:
        super().delete(piece_id)
        self._unsettled.pop(piece_id, None)

    def search(self, query: str, *, top_k: int, among: PieceFilter) -> list[RetrievedPiece]:
        deadline = time.monotonic() + DEADLINE_S
        while self._unsettled:
            assert time.monotonic() < deadline, f"{sorted(self._unsettled)} can't be found"
            for piece in list(self._unsettled.values()):
                hits = self._client.knowledge.search(piece.content, limit=100).hits
                if any((hit.entry_id, hit.content) == (piece.piece_id, piece.content) for hit in hits):
                    del self._unsettled[piece.piece_id]
            time.sleep(_POLL_S)
        return super().search(query, top_k=top_k, among=among)


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
        for entry in client.knowledge_entries.list.iterate():
            client.knowledge_entries.delete(entry.entry_id)
        for entity in client.entities.list.iterate():
            client.entities.delete(entity.entity_id)
        for node in client.graph.list_nodes.iterate():
            client.graph.delete_node(node.node_id)


class TestHttpStores(KnowledgeStoreSuite):
    @pytest.fixture
    def stores(self, client: Client) -> KnowledgeStores:
        return open_stores("http", client=client)._replace(piece_store=_SettledPieceStore(client))
