"""Problems that the caller of a route gets when a chat model can't be used."""

import math
from typing import Final

from kb_shared.chat.chat import Chat
from kb_shared.chat.models import ChatModel
from kb_shared.errors import (
    AnswerWithheld,
    BatchRefused,
    ContextExceeded,
    ModelNotAllowed,
    Parked,
    ProviderIncompatible,
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
    """Map an error of a call of a model, other than one of a budget. The texts of these errors are ours."""
    match error:
        case ContextExceeded():
            return RequestError(
                422,
                "messages-refused",
                f"The request is too long for the model: {error}. Send less (fewer passages, a shorter text or "
                "conversation), allow a shorter answer (`max_output_tokens`), or choose a model with a larger context.",
                extra={"reason": "context-exceeded"},
            )
        case BatchRefused():
            return RequestError(
                422,
                "messages-refused",
                "The model's provider refuses the request: its messages are too long, their content is not allowed, or "
                f"the model does not take what it asks for ({error}).",
            )
        case AnswerWithheld():
            return RequestError(422, "messages-refused", f"There is no answer: {error}. Ask in other words.")
        case ProviderIncompatible():
            return RequestError(422, "provider-refused", f"The model can't be used: {error}.")
        case ProviderUnavailable() | Parked():
            retry_after_s = error.retry_after_s or _RETRY_AFTER_S
            return RequestError(
                503,
                "provider-unavailable",
                f"The model can't answer now: {error}. Try again in {math.ceil(retry_after_s)} s.{_remedy(error)}",
                retry_after_s=retry_after_s,
            )
        case _:
            return RequestError(
                503,
                "provider-refused",
                f"The model's provider refuses the stored key or the model ({error}). Tell the person who manages the "
                "key.",
                retry_after_s=60,
            )


def _remedy(error: ProviderUnavailable | Parked) -> str:
    if error.error_type != "provider_timeout":
        return ""
    return " A model that needs longer for its first word needs a shorter question or a longer time limit."
