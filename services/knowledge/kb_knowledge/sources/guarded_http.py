"""Fetches from addresses that users and pages named: public ones only, bounded in bytes and time, without cookies.

A redirect is never followed by the HTTP library: `fetch` returns where it leads, and `follow` checks each hop like an
address that a user has named. Each connection goes to an address that was checked when its name was looked up.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from kb_knowledge.sources.media_types import media_type_of
from kb_knowledge.sources.source_address import ForbiddenAddress, check_form, count_refused
from kb_shared.providers.capped_answers import AnswerTooLarge, answers_up_to
from kb_shared.providers.public_addresses import HOW_TO_ALLOW, NotPublic, public_addresses_of
from kb_shared.providers.public_transport import is_refused, transport_to_named_addresses

ROBOT: Final = "knowledge-bases-crawler"
"""Name in robots.txt."""
USER_AGENT: Final = f"{ROBOT}/1"
MAX_REDIRECTS: Final = 10
_BEGINNING_BYTES: Final = 512
"""Length of what is read of an answer, before it is decided whether the rest is."""
_OK: Final = 200
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class FetchFailed(Exception):
    """An address from which nothing was fetched. The message is for users and quotes nothing of the answer."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_bytes: int = 10_000_000
    """Size of an answer, also after it was decompressed."""
    within_s: float = 20.0
    """Time from the look-up of the name to the last byte."""


@dataclass(frozen=True, slots=True)
class Fetched:
    url: str
    status: int
    headers: Mapping[str, str]
    """Headers; names are in lower case."""
    body: bytes = b""
    """Contents; empty unless the status is 200 and the media type was accepted."""
    robots_tags: tuple[str, ...] = ()
    """Values of the header X-Robots-Tag, each as it was sent."""
    media_type: str = ""
    """Type that the server names, or that the contents begin like."""

    @property
    def redirect_to(self) -> str | None:
        """Return where the server sends us: an unchecked address, or part of one."""
        return self.headers.get("location") if self.status in _REDIRECTS else None


def _any_type(_media_type: str) -> bool:
    return True


class GuardedHttp:
    """Sends GET requests over connections that it keeps; one per process."""

    def __init__(self, *, allow_private: bool) -> None:
        """Construct it; with `allow_private` addresses may be private and have any port."""
        self._allow_private = allow_private
        self._http = httpx.AsyncClient(
            transport=transport_to_named_addresses(private=allow_private),
            follow_redirects=False,
            headers={"User-Agent": USER_AGENT},
            # Cookies of one organization's source must not be sent for another's.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            trust_env=False,
        )

    async def fetch(
        self,
        url: str,
        limits: FetchLimits | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        accepts: Callable[[str], bool] = _any_type,
    ) -> Fetched:
        """Send one request.

        Args:
            url: what is fetched.
            limits: of the answer.
            headers: further headers of the request.
            accepts: says of a media type whether its contents are read.

        Raises:
            FetchFailed: no complete answer within the limits.
        """
        limits = limits or FetchLimits()
        try:
            check_form(url, allow_private=self._allow_private)
            async with asyncio.timeout(limits.within_s):
                with answers_up_to(limits.max_bytes):
                    return await self._fetch(url, headers or {}, accepts)
        except ForbiddenAddress as forbidden:
            count_refused(forbidden.reason)
            raise FetchFailed(f"its address should be {forbidden}") from None
        except (TimeoutError, httpx.TimeoutException):
            raise FetchFailed(f"the server did not answer completely within {limits.within_s:g} s") from None
        except AnswerTooLarge:
            raise FetchFailed(f"the answer has more than {limits.max_bytes} bytes") from None
        except httpx.ConnectError as error:
            if is_refused(error):
                count_refused("not_public")
                raise FetchFailed(f"the server does not exist, or is not a public one; {HOW_TO_ALLOW}") from None
            raise FetchFailed("the server can't be reached") from None
        except httpx.DecodingError:
            raise FetchFailed("the answer is compressed in a way that can't be read") from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError):
            raise FetchFailed("the server did not answer correctly") from None

    async def follow(self, url: str, limits: FetchLimits | None = None) -> Fetched:
        """Send a request, and more for up to ten redirects.

        Raises:
            FetchFailed: no complete answer within the limits, or more redirects.
        """
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self.fetch(url, limits)
            if answer.redirect_to is None:
                return answer
            try:
                after = str(httpx.URL(url).join(answer.redirect_to))
            except httpx.InvalidURL:
                raise FetchFailed("the server redirects to something that is no address") from None
            await self.check_hop(url, after)
            url = after
        raise FetchFailed(f"the server redirects more than {MAX_REDIRECTS} times")

    async def close(self) -> None:
        await self._http.aclose()

    async def check_hop(self, before: str, after: str) -> None:
        """Refuse that a public server leads into our own network, also where a user may name addresses in it.

        The user has named the public server, and the server the rest. Raises FetchFailed.
        """
        if not self._allow_private or httpx.URL(before).host == httpx.URL(after).host:
            return
        if await _is_public(before) and not await _is_public(after):
            count_refused("not_public")
            raise FetchFailed("a public server leads to one that is not public")

    async def _fetch(self, url: str, headers: Mapping[str, str], accepts: Callable[[str], bool]) -> Fetched:
        async with self._http.stream("GET", url, headers=dict(headers)) as response:
            answer = Fetched(
                url,
                response.status_code,
                dict(response.headers),
                robots_tags=tuple(response.headers.get_list("x-robots-tag")),
            )
            if response.status_code != _OK:
                return answer
            pieces = response.aiter_raw()
            body = b""
            async for piece in pieces:
                body += piece
                if len(body) >= _BEGINNING_BYTES:
                    break
            media_type = media_type_of(answer.headers.get("content-type", ""), body)
            if not accepts(media_type):
                return replace(answer, media_type=media_type)
            return replace(answer, media_type=media_type, body=b"".join([body, *[piece async for piece in pieces]]))


async def _is_public(url: str) -> bool:
    try:
        host, port = check_form(url, allow_private=True)
        await public_addresses_of(host, port)
    except (ForbiddenAddress, NotPublic):
        return False
    return True
