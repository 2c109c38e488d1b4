from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_contracts.api.dead_letters import DeadLetterList, DeadLetterView


class AsyncDeadLetters(AsyncResource):
    """Messages that could not be handled."""

    @operation
    def redrive(self, dead_letter_id: str) -> ApiCall[DeadLetterView]:
        """Send a dead letter to its topic again."""
        return ApiCall(
            "POST",
            "/dead-letters/{dead_letter_id}/redrive",
            DeadLetterView,
            ids={"dead_letter_id": dead_letter_id},
        )

    @listing
    def list(
        self,
        *,
        topic: str | None = None,
        reason: str | None = None,
        cursor: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[DeadLetterList, DeadLetterView]:
        """Return a page of the dead letters, newest first."""
        return PageCall(
            "GET",
            "/dead-letters",
            DeadLetterList,
            query={"topic": topic, "reason": reason, "cursor": cursor, "skip": skip, "limit": limit},
            items=lambda page: page.dead_letters,
        )
