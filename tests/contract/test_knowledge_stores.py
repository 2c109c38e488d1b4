"""The stores in memory keep what the protocols promise."""

import pytest

from kb_client.knowledge import KnowledgeStores, open_stores
from tests.contract.knowledge_store_suite import KnowledgeStoreSuite


class TestMemoryStores(KnowledgeStoreSuite):
    @pytest.fixture
    def stores(self) -> KnowledgeStores:
        return open_stores("memory")
