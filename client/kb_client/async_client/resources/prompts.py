from collections.abc import Mapping, Sequence
from typing import Any

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.prompt_injection import PromptInjection
from kb_contracts.api.prompts import PromptList, PromptView


class AsyncPrompts(AsyncResource):
    """Prompts: instructions for a chat model, with the knowledge bases that it searches."""

    @operation
    def create(
        self,
        *,
        name: str,
        content: str,
        model: str | Unset | None = UNSET,
        answer_schema: Mapping[str, Any] | Unset | None = UNSET,
        kb_id: str | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        auto_search: bool | Unset = UNSET,
        injection: PromptInjection | Mapping[str, Any] | Unset | None = UNSET,
    ) -> ApiCall[PromptView]:
        """Create a prompt.

        Args:
            answer_schema: JSON schema of the answer, `schema` in the API.
        """
        return ApiCall(
            "POST",
            "/prompts",
            PromptView,
            body=without_unset(
                {
                    "name": name,
                    "content": content,
                    "model": model,
                    "schema": answer_schema,
                    "kb_id": kb_id,
                    "kb_ids": kb_ids,
                    "auto_search": auto_search,
                    "injection": injection,
                }
            ),
        )

    @operation
    def get(self, prompt_id: str) -> ApiCall[PromptView]:
        """Return a prompt."""
        return ApiCall("GET", "/prompts/{prompt_id}", PromptView, ids={"prompt_id": prompt_id})

    @operation
    def update(
        self,
        prompt_id: str,
        *,
        name: str | Unset | None = UNSET,
        content: str | Unset | None = UNSET,
        model: str | Unset | None = UNSET,
        answer_schema: Mapping[str, Any] | Unset | None = UNSET,
        kb_id: str | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        auto_search: bool | Unset | None = UNSET,
        injection: PromptInjection | Mapping[str, Any] | Unset | None = UNSET,
        if_match: str | None = None,
    ) -> ApiCall[PromptView]:
        """Change the given fields.

        Args:
            answer_schema: JSON schema of the answer, `schema` in the API; None removes it.
            if_match: `etag` of the version that the change is meant for; another version is not changed.
        """
        return ApiCall(
            "PUT",
            "/prompts/{prompt_id}",
            PromptView,
            ids={"prompt_id": prompt_id},
            headers={"If-Match": if_match},
            body=without_unset(
                {
                    "name": name,
                    "content": content,
                    "model": model,
                    "schema": answer_schema,
                    "kb_id": kb_id,
                    "kb_ids": kb_ids,
                    "auto_search": auto_search,
                    "injection": injection,
                }
            ),
        )

    @operation
    def delete(self, prompt_id: str) -> ApiCall[MessageResponse]:
        """Delete a prompt."""
        return ApiCall("DELETE", "/prompts/{prompt_id}", MessageResponse, ids={"prompt_id": prompt_id})

    @listing
    def list(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[PromptList, PromptView]:
        """Return a page of the prompts."""
        return PageCall(
            "GET", "/prompts", PromptList, query={"skip": skip, "limit": limit}, items=lambda page: page.prompts
        )
