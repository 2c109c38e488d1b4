from collections.abc import Sequence

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.dead_letters import (
    DeadLetterCounts,
    DeadLetterList,
    DeadLetterView,
    DiscardedDeadLetters,
    RedrivenDeadLetters,
)


class AsyncDeadLetters(AsyncResource):
    """Messages that could not be handled."""

    @operation
    def get(self, dead_letter_id: str) -> ApiCall[DeadLetterView]:
        """Return a dead letter, without the content of its message."""
        return ApiCall("GET", "/dead-letters/{dead_letter_id}", DeadLetterView, ids={"dead_letter_id": dead_letter_id})

    @operation
    def count(self) -> ApiCall[DeadLetterCounts]:
        """Count the dead letters that were neither redriven nor discarded, by reason."""
        return ApiCall("GET", "/dead-letters/counts", DeadLetterCounts)

    @operation
    def redrive(self, dead_letter_id: str) -> ApiCall[DeadLetterView]:
        """Send a dead letter to its topic again."""
        return ApiCall(
            "POST",
            "/dead-letters/{dead_letter_id}/redrive",
            DeadLetterView,
            ids={"dead_letter_id": dead_letter_id},
        )

    @operation
    def redrive_many(
        self,
        *,
        topic: str | Unset | None = UNSET,
        reason: str | Unset | None = UNSET,
        dead_letter_ids: Sequence[str] | Unset | None = UNSET,
    ) -> ApiCall[RedrivenDeadLetters]:
        """Send the messages of open dead letters again, the oldest first, at most 1,000; without an argument, of all.

        Repeat the call while `are_more_left`.
        """
        return ApiCall(
            "POST",
            "/dead-letters:redrive",
            RedrivenDeadLetters,
            body=without_unset({"topic": topic, "reason": reason, "dead_letter_ids": dead_letter_ids}),
        )

    @operation
    def discard(self, dead_letter_id: str) -> ApiCall[DeadLetterView]:
        """Mark a dead letter as one that is not to be sent again."""
        return ApiCall(
            "POST",
            "/dead-letters/{dead_letter_id}/discard",
            DeadLetterView,
            ids={"dead_letter_id": dead_letter_id},
        )

    @operation
    def discard_many(
        self,
        *,
        topic: str | Unset | None = UNSET,
        reason: str | Unset | None = UNSET,
        dead_letter_ids: Sequence[str] | Unset | None = UNSET,
    ) -> ApiCall[DiscardedDeadLetters]:
        """Mark open dead letters as ones not to be sent again, at most 1,000; without an argument, all.

        Repeat the call while `are_more_left`.
        """
        return ApiCall(
            "POST",
            "/dead-letters:discard",
            DiscardedDeadLetters,
            body=without_unset({"topic": topic, "reason": reason, "dead_letter_ids": dead_letter_ids}),
        )

    @listing
    def list(
        self,
        *,
        topic: str | None = None,
        reason: str | None = None,
        is_open: bool | None = None,
        cursor: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[DeadLetterList, DeadLetterView]:
        """Return a page of the dead letters, newest first."""
        return PageCall(
            "GET",
            "/dead-letters",
            DeadLetterList,
            query={
                "topic": topic,
                "reason": reason,
                "is_open": is_open,
                "cursor": cursor,
                "skip": skip,
                "limit": limit,
            },
            items=lambda page: page.dead_letters,
        )
