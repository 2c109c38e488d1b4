"""Remedies: what to do about a document that could not be indexed, by the type of its error."""

from collections.abc import Mapping
from typing import Final

from kb_console.operations.operation_words import WAITING_FOR

_OF_FAILED: Final[Mapping[str, str]] = {
    "document_unfit": "split the document, or raise the greatest number of chunks in the settings",
    "sensitive_content": "remove what the message names and upload it again, or let the settings not refuse it",
    "knowledge_base_full": "remove documents, or ask the operator for a higher limit, then retry",
    "provider_incompatible": "repair the address of the provider, which usually ends in /v1, then retry",
    "answer_withheld": "ask the provider why its model refuses to answer",
    "bad_answer": "retry; if it fails again, ask the provider",
    "provider_4xx": "repair what the message names, then retry",
    "text_refused": "shorten or change the text that the message names",
    "answer_too_large": "repair the server at the address of the provider, then retry",
    "unknown_model": "ask the operator for this embedding model, then retry",
    "overloaded": "nothing: it is tried again; if it fails, retry when less is being indexed",
    "transaction_expired": "retry, or split the document",
    "mongo_transient": "retry",
    "late_model_failed": "ask the operator for the log of the indexer",
    "knowledge_base_not_ready": "nothing: it is tried again",
    "worker_crashed": "ask the operator how the indexers ended, then retry",
    "internal_error": "report the trace on the page of the document to the operator, then retry",
    "permanent": "repair what the message names, then retry",
}
REMEDIES: Final[Mapping[str, str]] = {**WAITING_FOR, **_OF_FAILED}
