"""Makes HTTP clients for addresses that organizations named: public addresses only, no redirects, for LiteLLM."""

import os
from typing import TYPE_CHECKING, Final, TypeAlias

from kb_shared.providers.access import Access
from kb_shared.providers.public_transport import transport_to_named_addresses

if TYPE_CHECKING:
    from kb_shared.providers.quiet_litellm import AsyncHTTPHandler, AsyncOpenAI

NamedClient: TypeAlias = "AsyncHTTPHandler | AsyncOpenAI"

_WITHOUT_VERSIONS: Final = frozenset({"preview", "latest", "v1"})
"""Versions of Azure's API that have the addresses of OpenAI's."""


class NamedAddresses:
    """Makes clients that share their connections."""

    def __init__(self, *, private: bool) -> None:
        """Construct it; `private` says whether organizations may name addresses that are not public."""
        self._private = private
        self._http: AsyncHTTPHandler | None = None

    def client(self, route: str, access: Access | None) -> "NamedClient | None":
        """Return what LiteLLM must be given for a model's `route`; None where no organization named the address."""
        if access is None or access.api_base is None:
            return None
        http = self._open()
        return _azure(access.api_base, access.api_key, http=http) if route.startswith("azure/") else http

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    def _open(self) -> "AsyncHTTPHandler":
        from kb_shared.providers.quiet_litellm import AsyncHTTPHandler

        if self._http is None:
            transport = transport_to_named_addresses(private=self._private)
            # A redirect could lead to any address.
            self._http = AsyncHTTPHandler(transport=transport, follow_redirects=False)
        return self._http


def _azure(api_base: str, api_key: str, *, http: "AsyncHTTPHandler") -> "AsyncOpenAI":
    from kb_shared.providers.quiet_litellm import AsyncAzureOpenAI, AsyncOpenAI, litellm

    version = os.environ.get("AZURE_API_VERSION") or litellm.AZURE_DEFAULT_API_VERSION
    client = http.client
    if version in _WITHOUT_VERSIONS:
        return AsyncOpenAI(api_key=api_key, base_url=f"{api_base}/openai/v1/", http_client=client, max_retries=0)
    return AsyncAzureOpenAI(
        api_key=api_key, azure_endpoint=api_base, api_version=version, http_client=client, max_retries=0
    )
