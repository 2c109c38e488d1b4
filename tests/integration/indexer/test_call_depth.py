"""Readers follow a command from its handler to MongoDB: the way stays short."""

import sys
from types import FrameType
from typing import Any

import pytest
from pymongo.asynchronous.collection import AsyncCollection

from tests.integration.indexer.support import Replica, Tenant, text_of

LONGEST_CHAIN = 9
"""Frames of our packages from the handler of a command to the write of chunks, both included."""


def own_frames() -> list[str]:
    """Return the qualified names of the functions of our packages that are being executed, the innermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("kb_"):
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


async def test_few_functions_lie_between_the_handler_of_a_command_and_the_write_of_its_chunks(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains: list[list[str]] = []
    bulk_write = AsyncCollection.bulk_write

    async def noting(self: Any, *args: Any, **options: Any) -> Any:
        if self.name.startswith("kb_vectors_"):
            chains.append(own_frames())
        return await bulk_write(self, *args, **options)

    monkeypatch.setattr(AsyncCollection, "bulk_write", noting)
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(1, 2)))
    await indexer.work()

    [chain] = chains
    assert (chain[0], chain[-1]) == ("write", "SyncDocumentHandler.handle")
    assert len(chain) <= LONGEST_CHAIN, chain
