from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.async_client.run_stream import AsyncRunStream
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.runs import RunBudget, RunList, RunMessage, RunRating, RunSummary, RunView
from kb_contracts.api.search import LoggedOrigin

RUN_WITHIN_S: Final = 300.0


class AsyncRuns(AsyncResource):
    """Runs: a chat model searches and answers."""

    @operation
    def create(
        self,
        *,
        prompt_id: str | Unset | None = UNSET,
        agent_id: str | Unset | None = UNSET,
        messages: Sequence[RunMessage | Mapping[str, str]] | Unset = UNSET,
        thread_id: str | Unset | None = UNSET,
        document_id: str | Unset | None = UNSET,
        kb_id: str | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        model: str | Unset | None = UNSET,
        response_schema: Mapping[str, Any] | Unset | None = UNSET,
        clean_strings: bool | Unset = UNSET,
        max_iterations: int | Unset | None = UNSET,
        auto_search: bool | Unset | None = UNSET,
        entity_id: str | Unset | None = UNSET,
        variables: Mapping[str, str] | Unset = UNSET,
        attachments: str | Unset = UNSET,
        budget: RunBudget | Mapping[str, float] | Unset = UNSET,
    ) -> ApiCall[RunView]:
        """Run a prompt, an agent or `messages`, and return the finished run. It is stopped if the caller goes away."""
        return ApiCall(
            "POST",
            "/runs",
            RunView,
            within_s=RUN_WITHIN_S,
            body=without_unset(
                {
                    "prompt_id": prompt_id,
                    "agent_id": agent_id,
                    "messages": messages,
                    "thread_id": thread_id,
                    "document_id": document_id,
                    "kb_id": kb_id,
                    "kb_ids": kb_ids,
                    "model": model,
                    "response_schema": response_schema,
                    "clean_strings": clean_strings,
                    "max_iterations": max_iterations,
                    "auto_search": auto_search,
                    "entity_id": entity_id,
                    "variables": variables,
                    "attachments": attachments,
                    "budget": budget,
                }
            ),
        )

    def stream(
        self,
        *,
        prompt_id: str | Unset | None = UNSET,
        agent_id: str | Unset | None = UNSET,
        messages: Sequence[RunMessage | Mapping[str, str]] | Unset = UNSET,
        thread_id: str | Unset | None = UNSET,
        document_id: str | Unset | None = UNSET,
        kb_id: str | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        model: str | Unset | None = UNSET,
        response_schema: Mapping[str, Any] | Unset | None = UNSET,
        clean_strings: bool | Unset = UNSET,
        max_iterations: int | Unset | None = UNSET,
        auto_search: bool | Unset | None = UNSET,
        entity_id: str | Unset | None = UNSET,
        variables: Mapping[str, str] | Unset = UNSET,
        attachments: str | Unset = UNSET,
        budget: RunBudget | Mapping[str, float] | Unset = UNSET,
    ) -> AsyncRunStream:
        """Run as `create` does, and yield the events of the run as they happen.

        async with client.runs.stream(messages=[...], kb_ids=[...]) as events:
            async for event in events:
                if event.event == "answer.delta":
                    print(event.data.text, end="")

        Leaving the block before the last event stops the run.
        """
        call = self.create.describe(
            prompt_id=prompt_id,
            agent_id=agent_id,
            messages=messages,
            thread_id=thread_id,
            document_id=document_id,
            kb_id=kb_id,
            kb_ids=kb_ids,
            model=model,
            response_schema=response_schema,
            clean_strings=clean_strings,
            max_iterations=max_iterations,
            auto_search=auto_search,
            entity_id=entity_id,
            variables=variables,
            attachments=attachments,
            budget=budget,
        )
        return AsyncRunStream(self._transport, call, self._options)

    @operation
    def get(self, run_id: str) -> ApiCall[RunView]:
        """Return a run with its messages and tool calls."""
        return ApiCall("GET", "/runs/{run_id}", RunView, ids={"run_id": run_id})

    @operation
    def cancel(self, run_id: str) -> ApiCall[RunSummary]:
        """Stop a run."""
        return ApiCall("POST", "/runs/{run_id}/cancel", RunSummary, ids={"run_id": run_id})

    @operation
    def set_feedback(self, run_id: str, *, rating: RunRating, comment: str | Unset = UNSET) -> ApiCall[RunView]:
        """Store the judgement of a person on the answer."""
        return ApiCall(
            "PUT",
            "/runs/{run_id}/feedback",
            RunView,
            ids={"run_id": run_id},
            body=without_unset({"rating": rating, "comment": comment}),
        )

    @listing
    def list(
        self,
        *,
        thread_id: str | None = None,
        agent_id: str | None = None,
        prompt_id: str | None = None,
        kb_id: str | None = None,
        status: str | None = None,
        origin: LoggedOrigin | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        cursor: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[RunList, RunSummary]:
        """Return a page of the runs, newest first."""
        return PageCall(
            "GET",
            "/runs",
            RunList,
            query={
                "thread_id": thread_id,
                "agent_id": agent_id,
                "prompt_id": prompt_id,
                "kb_id": kb_id,
                "status": status,
                "origin": origin,
                "from": since,
                "to": until,
                "cursor": cursor,
                "skip": skip,
                "limit": limit,
            },
            items=lambda page: page.runs,
        )
