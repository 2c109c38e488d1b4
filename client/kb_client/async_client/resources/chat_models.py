from kb_client.async_client.operation import AsyncResource, listing
from kb_client.call import PageCall
from kb_contracts.api.chat_models import ChatModelList, ChatModelView


class AsyncChatModels(AsyncResource):
    """Models that runs, prompts and agents can name."""

    @listing
    def list(
        self, *, key_present: bool | None = None, skip: int | None = None, limit: int | None = None
    ) -> PageCall[ChatModelList, ChatModelView]:
        """Return a page of the models.

        Args:
            key_present: True for only those whose provider has a key.
            skip: number of models before the page.
            limit: of the page.
        """
        return PageCall(
            "GET",
            "/chat-models",
            ChatModelList,
            query={"key_present": key_present, "skip": skip, "limit": limit},
            items=lambda page: page.chat_models,
        )
