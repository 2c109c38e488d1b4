import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
import pytest

from kb_shared.embedding.models import LOCAL_MODELS
from tests.waiting import until

COMMAND = [sys.executable, "-m", "kb_local.model_server", "--hash-only"]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of the test's own on a port the system chose, and its base URL."""
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().rsplit(maxsplit=1)[-1]
        finally:
            process.kill()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_it_stops_cleanly_even_while_a_call_hangs(stop: signal.Signals) -> None:
    with running() as (process, base):
        async with httpx.AsyncClient(base_url=base.removesuffix("/v1"), trust_env=False, timeout=60) as client:
            await client.put("/admin/hash", json={"faults": [{"kind": "hang", "hang_s": 600}]})
            hanging = asyncio.create_task(client.post("/v1/embeddings", json={"model": "hash-8", "input": "a"}))

            async def has_arrived() -> bool:
                return bool((await client.get("/admin/hash")).json()["calls"])

            await until(has_arrived)
            process.send_signal(stop)

            assert await asyncio.to_thread(process.wait, 60) == 0
            await asyncio.wait([hanging])
            assert hanging.exception() or hanging.result().status_code >= 500


@pytest.mark.parametrize("model", LOCAL_MODELS)
def test_with_hash_models_only_it_is_ready_at_once_and_does_not_know_the_others(model: str) -> None:
    with running() as (_, base), httpx.Client(base_url=base.removesuffix("/v1"), trust_env=False) as client:
        assert client.get("/readyz").status_code == 200
        assert client.post("/v1/embeddings", json={"model": model, "input": "a"}).status_code == 404
        assert model not in client.get("/v1/models").text


def test_small_answers_are_not_held_back_by_the_network_stack() -> None:
    # Nagle's algorithm and delayed acknowledgements make every call last 40 ms, even the quickest.
    with running() as (_, base), httpx.Client(trust_env=False, timeout=30) as client:
        calls = (client.post(f"{base}/embeddings", json={"model": "hash-8", "input": "a"}) for _ in range(1_000))
        # A busy machine may be slow now and then: one call that is quick tells.
        assert any(call.elapsed < timedelta(milliseconds=30) for call in calls)


def test_only_this_machine_may_reach_it() -> None:
    refused = subprocess.run([*COMMAND, "--host", "0.0.0.0"], capture_output=True, text=True, check=False, timeout=60)

    assert refused.returncode == 2
    assert "not a loopback address" in refused.stderr


def test_a_taken_port_is_explained() -> None:
    with running() as (_, base):
        port = str(httpx.URL(base).port)
        refused = subprocess.run([*COMMAND, "--port", port], capture_output=True, text=True, check=False, timeout=60)

    assert refused.returncode == 1
    assert f"127.0.0.1:{port}" in refused.stderr
    assert "--port" in refused.stderr
