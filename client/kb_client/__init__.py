"""Client of knowledge bases: the HTTP API, document events, and the command `kb`.

    from kb_client import Client

    with Client() as client:
        answer = client.knowledge_bases.search(kb_id, "How many days of leave are there?")

Names are imported when they are first used, so that a publisher of events needs no HTTP client, and the command starts
quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kb_client.async_client.client import AsyncClient as AsyncClient
    from kb_client.batch_failures import BatchFailed as BatchFailed
    from kb_client.configuration import Configuration as Configuration
    from kb_client.errors import ApiError as ApiError
    from kb_client.errors import CallTimedOut as CallTimedOut
    from kb_client.errors import ConnectionFailed as ConnectionFailed
    from kb_client.errors import KbClientError as KbClientError
    from kb_client.errors import StreamBroken as StreamBroken
    from kb_client.errors import UnexpectedAnswer as UnexpectedAnswer
    from kb_client.errors import UnusableConfiguration as UnusableConfiguration
    from kb_client.raw_response import RawResponse as RawResponse
    from kb_client.sync_client.client import Client as Client
    from kb_client.unset import UNSET as UNSET

_MODULES: Final = {
    "ApiError": "errors",
    "AsyncClient": "async_client.client",
    "BatchFailed": "batch_failures",
    "CallTimedOut": "errors",
    "Client": "sync_client.client",
    "Configuration": "configuration",
    "ConnectionFailed": "errors",
    "KbClientError": "errors",
    "RawResponse": "raw_response",
    "StreamBroken": "errors",
    "UNSET": "unset",
    "UnexpectedAnswer": "errors",
    "UnusableHeader": "errors",
    "UnusableConfiguration": "errors",
}

__all__ = [
    "UNSET",
    "ApiError",
    "AsyncClient",
    "BatchFailed",
    "CallTimedOut",
    "Client",
    "Configuration",
    "ConnectionFailed",
    "KbClientError",
    "RawResponse",
    "StreamBroken",
    "UnexpectedAnswer",
    "UnusableConfiguration",
    "UnusableHeader",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
