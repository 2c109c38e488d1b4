"""The provider against a server that shows what it was sent, and sends it back in its errors."""

import asyncio
import base64
import json
import socket
import traceback
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field

import numpy as np
import pytest
from litellm.litellm_core_utils.litellm_logging import Logging

from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.provider import Provider, bundled_models
from kb_shared.errors import BatchRefused, KbError, ProviderKeyRefused, ProviderRefused, ProviderUnavailable
from kb_shared.providers import public_transport
from kb_shared.providers.access import Access

SECRET_TEXT = "the-text-of-one-organization"
SECRET_KEY = "sk-the-secret-key"


@dataclass(slots=True)
class Echo:
    """Answers each request with `status`; an error quotes the request."""

    port: int = 0
    status: int = 200
    code: str | None = None
    """Code of an error."""
    requests: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
        )
        request = (await reader.readexactly(length)).decode()
        self.requests.append((head, json.loads(request)))
        body = json.dumps(self._right() if self.status == 200 else self._error(head + request)).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n"
            b"location: http://127.0.0.1:%d/elsewhere\r\n\r\n" % (self.status, len(body), self.port)
        )
        writer.write(body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def _error(self, message: str) -> dict[str, object]:
        return {"error": {"message": message, "code": self.code}}

    def _right(self) -> dict[str, object]:
        vector = base64.b64encode(np.ones(1536, dtype="<f4").tobytes()).decode()
        return {"object": "list", "data": [{"index": 0, "embedding": vector}], "usage": {"prompt_tokens": 1}}

    def catalogue(self) -> ModelCatalogue:
        api_base = f"http://127.0.0.1:{self.port}/v1"
        environment = {
            "OPENAI_API_KEY": SECRET_KEY,
            "OPENAI_API_BASE": api_base,
            "AZURE_API_KEY": SECRET_KEY,
            "AZURE_API_BASE": api_base,
            "AZURE_API_VERSION": "2024-02-01",
        }
        return ModelCatalogue(bundled_models(), local_models_api_base=None, environment=environment)


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    server = await asyncio.start_server(echo.answer, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    async with server:
        yield echo


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider(timeout_s=30)
    yield provider
    await provider.close()


async def test_litellm_keeps_no_record_of_a_call(
    echo: Echo, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[object] = []

    def record(self: Logging, **_: object) -> Awaitable[None]:
        recorded.append(self)
        return asyncio.sleep(0)

    monkeypatch.setattr(Logging, "async_success_handler", record)
    model = echo.catalogue().get("text-embedding-3-small")

    await provider.embed(["a"], model=model, dimensions=1536, input_type="document")

    for _ in range(10):
        await asyncio.sleep(0)
    assert recorded == []


async def test_c5_openai_is_asked_for_base64_with_its_key(echo: Echo, provider: Provider) -> None:
    model = echo.catalogue().get("text-embedding-3-small")

    vectors = await provider.embed(["a"], model=model, dimensions=1536, input_type="document")

    [(head, request)] = echo.requests
    assert len(vectors[0]) == 1536
    assert head.startswith("POST /v1/embeddings ")
    assert f"Bearer {SECRET_KEY}" in head
    assert request == {"model": "text-embedding-3-small", "input": ["a"], "encoding_format": "base64"}


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429, 500, 503])
async def test_the_text_of_an_error_reaches_no_log_or_exception(
    echo: Echo,
    provider: Provider,
    status: int,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    echo.status = status
    model = echo.catalogue().get("text-embedding-3-small")

    with pytest.raises(KbError) as failed:
        await provider.embed([SECRET_TEXT], model=model, dimensions=1536, input_type="document")

    printed = capfd.readouterr()
    shown = [repr(failed.value), *traceback.format_exception(failed.value), caplog.text, printed.out, printed.err]
    for secret in (SECRET_TEXT, SECRET_KEY):
        assert not any(secret in text for text in shown)
    assert failed.value.__context__ is None
    # One more without the option that the error seems to name.
    may_be_an_option = status in (400, 404, 422, 500)
    assert len(echo.requests) == (2 if may_be_an_option else 1)


@pytest.mark.parametrize("name", ["text-embedding-3-small", "azure/text-embedding-3-small"])
async def test_a_used_up_quota_is_distinguished_from_a_limit_by_its_code(
    echo: Echo, provider: Provider, name: str
) -> None:
    model = echo.catalogue().get(name)
    echo.status = 429
    for code, expected in (("insufficient_quota", ProviderKeyRefused), ("rate_limit_exceeded", ProviderUnavailable)):
        echo.code = code
        with pytest.raises(expected):
            await provider.embed([SECRET_TEXT], model=model, dimensions=1536, input_type="document")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, BatchRefused), (413, BatchRefused), (401, ProviderKeyRefused), (402, ProviderKeyRefused)],
)
async def test_litellm_preserves_the_meaning_of_each_status(
    echo: Echo, provider: Provider, status: int, expected: type[KbError]
) -> None:
    echo.status = status
    model = echo.catalogue().get("text-embedding-3-small")
    with pytest.raises(expected):
        await provider.embed(["a"], model=model, dimensions=1536, input_type="document")


async def test_an_address_that_an_organization_named_is_asked_only_if_it_is_public(echo: Echo) -> None:
    model = echo.catalogue().get("text-embedding-3-small", Access(SECRET_KEY, f"http://localhost:{echo.port}/v1"))
    careful, trusting = Provider(timeout_s=30), Provider(timeout_s=30, private_addresses=True)

    with pytest.raises(ProviderUnavailable):
        await careful.embed(["a"], model=model, dimensions=1536, input_type="document")
    assert echo.requests == []
    await trusting.embed(["a"], model=model, dimensions=1536, input_type="document")
    assert len(echo.requests) == 1
    for provider in (careful, trusting):
        await provider.close()


async def test_a_connection_goes_to_the_checked_address_though_the_name_has_another_by_then(
    echo: Echo, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def checked(host: str, port: int) -> list[str]:
        assert (host, port) == ("no-such-host.invalid", echo.port)
        # No server listens at the first.
        return ["127.0.0.2", "127.0.0.1"]

    monkeypatch.setattr(public_transport, "public_addresses_of", checked)
    named = Access(SECRET_KEY, f"http://no-such-host.invalid:{echo.port}/v1")
    model = echo.catalogue().get("text-embedding-3-small", named)

    await provider.embed(["a"], model=model, dimensions=1536, input_type="document")
    [(head, _)] = echo.requests
    assert f"host: no-such-host.invalid:{echo.port}" in head.lower()


async def test_a_redirect_of_a_custom_address_is_not_followed(echo: Echo) -> None:
    model = echo.catalogue().get("text-embedding-3-small", Access(SECRET_KEY, f"http://127.0.0.1:{echo.port}/v1"))
    echo.status = 307
    trusting = Provider(timeout_s=30, private_addresses=True)

    with pytest.raises(ProviderRefused):
        await trusting.embed(["a"], model=model, dimensions=1536, input_type="document")
    assert len(echo.requests) == 1
    await trusting.close()


async def test_an_address_without_a_server_is_an_outage(provider: Provider) -> None:
    with socket.socket() as taken_and_silent:
        taken_and_silent.bind(("127.0.0.1", 0))
        model = Echo(taken_and_silent.getsockname()[1]).catalogue().get("text-embedding-3-small")

        with pytest.raises(ProviderUnavailable):
            await provider.embed(["a"], model=model, dimensions=1536, input_type="document")


def test_the_bundled_list_has_common_models() -> None:
    bundled = bundled_models()

    assert (bundled["text-embedding-3-small"].provider, bundled["text-embedding-3-small"].dimensions) == (
        "openai",
        1536,
    )
    assert bundled["fireworks_ai/thenlper/gte-base"].provider == "fireworks_ai"
