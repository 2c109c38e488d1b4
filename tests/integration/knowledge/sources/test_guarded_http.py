"""The guard between sources and the network: with a resolver that lies, redirects, bombs and servers that are slow."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpcore
import pytest
from httpcore import AnyIOBackend

from kb_knowledge.sources.guarded_http import Fetched, FetchFailed, FetchLimits, GuardedHttp
from kb_knowledge.sources.source_address import ForbiddenAddress, check_address
from tests.integration.knowledge.sources.web_site import WebSite

PUBLIC = "93.184.215.14"


@pytest.fixture
async def guarded() -> AsyncIterator[GuardedHttp]:
    http = GuardedHttp(allow_private=False)
    yield http
    await http.close()


class Internet:
    """Resolver and connections: each look-up of a name gives the next answer; a public address is the test's site."""

    def __init__(self, site: WebSite) -> None:
        self.answers: dict[str, list[str]] = {}
        self.connected: list[str] = []
        self._site = site
        self._connect = AnyIOBackend.connect_tcp

    async def getaddrinfo(self, host: str, port: int, **_options: Any) -> list[Any]:
        answers = self.answers[host]
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(None, None, None, "", (each, port)) for each in address.split()]

    async def connect_tcp(self, backend: AnyIOBackend, host: str, port: int, **options: Any) -> Any:
        self.connected.append(host)
        if host != PUBLIC:
            raise httpcore.ConnectError
        return await self._connect(backend, "127.0.0.1", self._site.port, **options)


@pytest.fixture
async def internet(site: WebSite, monkeypatch: pytest.MonkeyPatch) -> Internet:
    internet = Internet(site)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", internet.getaddrinfo, raising=False)

    async def connect_tcp(backend: AnyIOBackend, host: str, port: int, **options: Any) -> Any:
        return await internet.connect_tcp(backend, host, port, **options)

    monkeypatch.setattr(AnyIOBackend, "connect_tcp", connect_tcp)
    return internet


async def test_a_name_is_looked_up_again_for_the_connection_which_goes_to_the_checked_address(
    guarded: GuardedHttp, internet: Internet
) -> None:
    internet.answers = {"good.example": [PUBLIC], "rebinds.example": [PUBLIC, "127.0.0.1"]}
    fetched = await guarded.fetch("http://good.example/")
    assert (fetched.status, internet.connected) == (200, [PUBLIC])

    # It was public when the source was set up.
    await check_address("http://rebinds.example/", allow_private=False)
    with pytest.raises(FetchFailed):
        await guarded.fetch("http://rebinds.example/")
    assert internet.connected == [PUBLIC]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1", "::ffff:127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "::127.0.0.1", "192.88.99.1", f"{PUBLIC} 127.0.0.1",
    ],
)  # fmt: skip
async def test_a_private_address_is_refused_when_it_is_named_resolved_and_redirected_to(
    guarded: GuardedHttp, internet: Internet, address: str
) -> None:
    internet.answers = {"evil.example": [address], "good.example": [PUBLIC]}
    with pytest.raises(ForbiddenAddress):
        await check_address("http://evil.example/", allow_private=False)
    with pytest.raises(FetchFailed):
        await guarded.fetch("http://evil.example/")

    redirecting = Redirecting("http://evil.example/latest/meta-data/")
    with pytest.raises(FetchFailed):
        await redirecting.follow(guarded)
    assert internet.connected == []


async def test_a_public_server_leads_to_no_private_one_also_where_users_may_name_those(internet: Internet) -> None:
    internet.answers = {"evil.example": ["127.0.0.1"], "good.example": [PUBLIC], "intranet.example": ["10.0.0.1"]}
    http = GuardedHttp(allow_private=True)
    try:
        with pytest.raises(FetchFailed, match="leads to one that is not public"):
            await Redirecting("http://evil.example:8080/admin").follow(http)
        assert internet.connected == []
        # What is private may lead to what is private.
        with pytest.raises(FetchFailed, match="can't be reached"):
            await Redirecting("http://evil.example/", start="http://intranet.example/").follow(http)
        assert internet.connected == ["evil.example"]
    finally:
        await http.close()


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://good.example/",
        "http://good@good.example/",
        "http://good.example:6379/",
    ],
)
async def test_a_redirect_to_what_no_source_may_name_is_not_followed(
    guarded: GuardedHttp, internet: Internet, location: str
) -> None:
    internet.answers = {"good.example": [PUBLIC]}
    with pytest.raises(FetchFailed):
        await Redirecting(location).follow(guarded)
    assert internet.connected == []


class Redirecting:
    """Answers the first request with a redirect; the guard sends the next."""

    def __init__(self, location: str, *, start: str = "http://good.example/") -> None:
        self._location, self._start = location, start

    async def follow(self, guarded: GuardedHttp) -> Fetched:
        fetch, answers = guarded.fetch, [Fetched(self._start, 302, {"location": self._location})]

        async def answer_first(url: str, *arguments: Any, **options: Any) -> Fetched:
            return answers.pop() if answers else await fetch(url, *arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(guarded, "fetch", answer_first)
            return await guarded.follow(self._start)


async def test_answers_are_bounded_in_bytes_and_time(http: GuardedHttp, site: WebSite) -> None:
    for trap in ("huge", "bomb"):
        with pytest.raises(FetchFailed, match="more than 1000000 bytes"):
            await http.fetch(f"{site.url}trap/{trap}", FetchLimits(max_bytes=1_000_000, within_s=60))
    with pytest.raises(FetchFailed, match=r"within 0.3 s"):
        await http.fetch(f"{site.url}trap/slow", FetchLimits(within_s=0.3))


async def test_cookies_are_neither_kept_nor_sent_and_other_types_are_not_read(http: GuardedHttp, site: WebSite) -> None:
    # The site refuses requests with a cookie.
    for _ in range(2):
        assert (await http.fetch(f"{site.url}page/1")).status == 200
    fetched = await http.fetch(f"{site.url}trap/huge", accepts=lambda media_type: media_type == "text/plain")
    assert (fetched.status, fetched.body) == (200, b"")
