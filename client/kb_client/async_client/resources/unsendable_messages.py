from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_contracts.api.unsendable_messages import UnsendableMessageList, UnsendableMessageView


class AsyncUnsendableMessages(AsyncResource):
    """Accepted messages that Kafka refused permanently."""

    @operation
    def redrive(self, message_id: str) -> ApiCall[UnsendableMessageView]:
        """Send a message again."""
        return ApiCall(
            "POST",
            "/unsendable-messages/{message_id}/redrive",
            UnsendableMessageView,
            ids={"message_id": message_id},
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
    ) -> PageCall[UnsendableMessageList, UnsendableMessageView]:
        """Return a page of the messages, newest first."""
        return PageCall(
            "GET",
            "/unsendable-messages",
            UnsendableMessageList,
            query={"topic": topic, "reason": reason, "cursor": cursor, "skip": skip, "limit": limit},
            items=lambda page: page.unsendable_messages,
        )
