"""Collects documents and changes of documents, and sends a hundred of them in a request."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from kb_client.batch_failures import BatchFailed, FailedDocument
from kb_client.call import BatchProgress
from kb_client.errors import HttpConflict, HttpContentTooLarge, HttpUnprocessableContent
from kb_client.json_encoding import encode_body, encode_metadata
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.batches import MAX_BATCHED
from kb_contracts.api.document_batches import BatchOutcomes
from kb_contracts.api.documents import AcceptedChange, PageOfText
from kb_contracts.metadata import MetadataWarning

MAX_BATCH_BYTES: Final = 1_800_000
"""Size of a batch as JSON: a request has room for 2 MB."""
MAX_TEXT_IN_BATCH_BYTES: Final = 500_000
"""Size above which a text is stored by itself: an event has room for 1 MB of JSON."""


class AsyncDocumentBatches:
    """Documents and changes of documents that are sent when there are enough of them, and on leaving the block.

    Args:
        upload: sends a document with a long text.
        send_batch: sends a batch.
        on_progress: is called with the numbers of documents that were answered and of those put so far.
    """

    def __init__(
        self,
        upload: Callable[..., Awaitable[AcceptedChange]],
        send_batch: Callable[[Sequence[Mapping[str, Any]]], Awaitable[BatchOutcomes]],
        *,
        on_progress: BatchProgress | None,
    ) -> None:
        self._upload = upload
        self._send_batch = send_batch
        self._on_progress = on_progress
        self._waiting: list[dict[str, Any]] = []
        self._waiting_bytes = 0
        self._put_count = 0
        self.accepted_count = 0
        self.failures: list[FailedDocument] = []
        """Documents that were refused so far."""
        self.warnings: dict[str, list[MetadataWarning]] = {}
        """Warnings of documents by their ids: parts of the metadata that were left out."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send the rest. After an error in the block it is not sent: the caller stopped there."""
        if kind is not None:
            return
        await self.flush()
        if self.failures:
            raise BatchFailed(self.failures, accepted_count=self.accepted_count)

    async def put(
        self,
        document_id: str,
        text: str,
        *,
        document_name: str,
        tag_ids: Sequence[str],
        upload_date: datetime | str | None = None,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        pages: Sequence[PageOfText | Mapping[str, int]] | Unset = UNSET,
        content_type: str | Unset | None = UNSET,
        source_digest: str | Unset | None = UNSET,
        reading_warnings: Sequence[str] | Unset | None = UNSET,
        revision: int | Unset | None = UNSET,
    ) -> None:
        """Add a document; the one that makes a batch full sends it. Arguments as in `documents.upload`."""
        document = without_unset(
            {
                "document_name": document_name,
                "tag_ids": tag_ids,
                "upload_date": upload_date or datetime.now(UTC),
                "metadata": encode_metadata(metadata),
                "pages": pages,
                "content_type": content_type,
                "source_digest": source_digest,
                "reading_warnings": reading_warnings,
                "revision": revision,
            }
        )
        self._put_count += 1
        if len(text.encode()) > MAX_TEXT_IN_BATCH_BYTES:
            await self._upload_alone(document_id, text, document=document)
            return
        await self._add({"document_id": document_id, "text": text, **document})

    async def replace_tags(
        self, document_id: str, *, tag_ids: Sequence[str], revision: int | Unset | None = UNSET
    ) -> None:
        """Add new tags of a document. Changes of the same document keep their order."""
        await self._add_change("replace_tags", document_id, {"tag_ids": tag_ids, "revision": revision})

    async def replace_metadata(
        self, document_id: str, *, metadata: Mapping[str, Any], revision: int | Unset | None = UNSET
    ) -> None:
        """Add new metadata of a document."""
        changed = {"metadata": encode_metadata(metadata), "revision": revision}
        await self._add_change("replace_metadata", document_id, changed)

    async def delete(self, document_id: str, *, revision: int | Unset | None = UNSET) -> None:
        """Add the deletion of a document."""
        await self._add_change("delete", document_id, {"revision": revision})

    async def flush(self) -> None:
        """Send what is waiting."""
        documents, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not documents:
            return
        outcomes = await self._send_batch(documents)
        self.accepted_count += outcomes.accepted_count
        for document, outcome in zip(documents, outcomes.outcomes, strict=True):
            if outcome.problem is not None:
                self.failures.append(FailedDocument.from_problem(document["document_id"], outcome.problem))
            self._keep_warnings(document["document_id"], outcome.warnings)
        self._report_progress()

    async def _add_change(self, action: str, document_id: str, changed: Mapping[str, Any]) -> None:
        self._put_count += 1
        await self._add({"action": action, "document_id": document_id, **without_unset(changed)})

    async def _add(self, document: dict[str, Any]) -> None:
        size_bytes = len(encode_body(document))
        if self._waiting_bytes + size_bytes > MAX_BATCH_BYTES:
            await self.flush()
        self._waiting.append(document)
        self._waiting_bytes += size_bytes
        if len(self._waiting) == MAX_BATCHED:
            await self.flush()

    async def _upload_alone(self, document_id: str, text: str, *, document: dict[str, Any]) -> None:
        # An earlier version of the same document may be waiting.
        await self.flush()
        try:
            accepted = await self._upload(document_id, text, **document)
            self.accepted_count += 1
            self._keep_warnings(document_id, accepted.warnings)
        except (HttpConflict, HttpContentTooLarge, HttpUnprocessableContent) as error:
            self.failures.append(FailedDocument.from_error(document_id, error))
        self._report_progress()

    def _keep_warnings(self, document_id: str, warnings: Sequence[MetadataWarning]) -> None:
        if warnings:
            self.warnings[document_id] = [*warnings]

    def _report_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self.accepted_count + len(self.failures), self._put_count)
