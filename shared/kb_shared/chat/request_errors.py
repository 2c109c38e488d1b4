"""Problems that the caller of a route gets when a chat model can't be used."""

from typing import Final

from kb_shared.chat.chat import Chat
from kb_shared.chat.models import ChatModel
from kb_shared.errors import (
    BatchRefused,
    ModelNotAllowed,
    Parked,
    ProviderKeyMissing,
    ProviderRefused,
    ProviderUnavailable,
    RequestError,
    UnknownModel,
)

_RETRY_AFTER_S: Final = 5.0


async def require_model(chat: Chat, organization_id: str, name: str) -> ChatModel:
    """Return a model as the organization reaches it.

    Raises:
        RequestError: 422 `model-not-allowed`, `unknown-model`, `provider-key-missing`.
        UnknownPrice: the organization has a budget in money, and the price of the model is not known.
    """
    try:
        return await chat.model(organization_id, name)
    except ModelNotAllowed as error:
        raise RequestError(
            422,
            "model-not-allowed",
            "This deployment does not allow this chat model; use one of `allowed_models`, in which * stands for "
            "any characters. Its operator can allow more (KB_CHAT_MODELS).",
            extra={"allowed_models": list(error.allowed)},
        ) from error
    except UnknownModel as error:
        raise RequestError(422, "unknown-model", f"This chat model is not known: {error}.") from error
    except ProviderKeyMissing as error:
        raise RequestError(422, "provider-key-missing", f"There is no provider key for this model: {error}.") from error


def map_provider_error(error: ProviderRefused | UnknownModel | ProviderUnavailable | Parked) -> RequestError:
    """Map an error of a call of a model, other than one of a budget."""
    match error:
        case BatchRefused():
            return RequestError(
                422,
                "messages-refused",
                "The model's provider refuses the messages: they are too long, or their content is not allowed.",
            )
        case ProviderUnavailable() | Parked():
            return RequestError(
                503,
                "provider-unavailable",
                "The model's provider is not available now; try again after Retry-After.",
                retry_after_s=error.retry_after_s or _RETRY_AFTER_S,
            )
        case _:
            return RequestError(
                503,
                "provider-refused",
                "The model's provider refuses the stored key or the model. Tell the person who manages the key.",
                retry_after_s=60,
            )
