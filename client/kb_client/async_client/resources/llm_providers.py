from typing import Final

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.llm_providers import LlmProviderList, LlmProviderView, ProviderCheckView, ProviderPauseView
from kb_contracts.api.model import MessageResponse

CHECK_WITHIN_S: Final = 600.0
"""Time limit of a test: a server may have to load a model of many gigabytes first."""


class AsyncLlmProviders(AsyncResource):
    """Keys of the organization for providers of models."""

    @listing
    def list(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[LlmProviderList, LlmProviderView]:
        """Return a page of the providers that have a key of the organization, without their keys."""
        return PageCall(
            "GET",
            "/llm-providers",
            LlmProviderList,
            query={"skip": skip, "limit": limit},
            items=lambda page: page.llm_providers,
        )

    @operation
    def get(self, provider: str) -> ApiCall[LlmProviderView]:
        """Return the settings of a provider, without its key."""
        return ApiCall("GET", "/llm-providers/{provider}", LlmProviderView, ids={"provider": provider})

    @operation
    def put(
        self,
        provider: str,
        *,
        api_key: str | Unset | None = UNSET,
        api_base: str | Unset | None = UNSET,
        requests_per_minute: int | Unset | None = UNSET,
        tokens_per_minute: int | Unset | None = UNSET,
    ) -> ApiCall[LlmProviderView]:
        """Set the key and the address of a provider; without a key, the one stored for this address stays."""
        return ApiCall(
            "PUT",
            "/llm-providers/{provider}",
            LlmProviderView,
            ids={"provider": provider},
            body=without_unset(
                {
                    "api_key": api_key,
                    "api_base": api_base,
                    "requests_per_minute": requests_per_minute,
                    "tokens_per_minute": tokens_per_minute,
                }
            ),
        )

    @operation
    def delete(self, provider: str) -> ApiCall[MessageResponse]:
        """Delete the key of a provider; that of the deployment is used from now on, if there is one."""
        return ApiCall("DELETE", "/llm-providers/{provider}", MessageResponse, ids={"provider": provider})

    @operation
    def test(self, provider: str, *, model: str | Unset | None = UNSET) -> ApiCall[ProviderCheckView]:
        """Call a model of a provider, and return what it can do or what is wrong; of a server, list the models, too.

        Args:
            model: by default the cheapest one, or the first chat model that a server lists.
        """
        return ApiCall(
            "POST",
            "/llm-providers/{provider}/test",
            ProviderCheckView,
            ids={"provider": provider},
            body=without_unset({"model": model}),
            within_s=CHECK_WITHIN_S,
        )

    @operation
    def pause(self, provider: str) -> ApiCall[ProviderPauseView]:
        """Let documents that need the provider wait. Searches and runs go on."""
        return ApiCall("POST", "/llm-providers/{provider}/pause", ProviderPauseView, ids={"provider": provider})

    @operation
    def resume(self, provider: str) -> ApiCall[ProviderPauseView]:
        """Index the documents that waited for the provider."""
        return ApiCall("POST", "/llm-providers/{provider}/resume", ProviderPauseView, ids={"provider": provider})
