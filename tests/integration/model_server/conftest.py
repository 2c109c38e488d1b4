from collections.abc import AsyncIterator

import httpx
import pytest

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess


@pytest.fixture
async def http(model_server: ModelServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the model server, whose hash models start and end each test without faults and counts."""
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as client:
        await client.delete("/admin/hash")
        yield client
        await client.delete("/admin/hash")
