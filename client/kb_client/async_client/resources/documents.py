from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from kb_client.async_client.document_batches import MAX_TEXT_IN_BATCH_BYTES, AsyncDocumentBatches
from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, BatchProgress, PageCall, UploadedText, UploadProgress, joined_values
from kb_client.json_encoding import encode_metadata
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.document_batches import BatchOutcomes
from kb_contracts.api.document_lists import DocumentListFilter, DocumentPage, DocumentSort, DocumentSummary
from kb_contracts.api.document_texts import DocumentText
from kb_contracts.api.documents import AcceptedChange, DocumentView, PageOfText, StoredTextView
from kb_contracts.api.memberships import ChunkList, ChunkView

WAIT_WITHIN_S: Final = 90.0
"""Time limit of a request that waits up to 60 s for a document."""


class AsyncDocuments(AsyncResource):
    """Documents of the organization, which belong to the knowledge bases that have one of their tags."""

    @operation
    def get(
        self,
        document_id: str,
        *,
        wait: Literal["searchable"] | None = None,
        timeout_s: float | None = None,
    ) -> ApiCall[DocumentView]:
        """Return what is known of a document, and its state in each knowledge base.

        Args:
            wait: wait for the document to be searchable; whether it is, the answer says.
            timeout_s: limit of this wait, at most 60; by default 30.
        """
        return ApiCall(
            "GET",
            "/documents/{document_id}",
            DocumentView,
            ids={"document_id": document_id},
            query={"wait": wait, "timeout_s": timeout_s},
            within_s=WAIT_WITHIN_S,
        )

    @operation
    def get_text(self, document_id: str, *, start: int | None = None, end: int | None = None) -> ApiCall[DocumentText]:
        """Return the text of a document, or a part of a long one: characters `start` to `end` (excluded)."""
        return ApiCall(
            "GET",
            "/documents/{document_id}/text",
            DocumentText,
            ids={"document_id": document_id},
            query={"start": start, "end": end},
        )

    @operation
    def put(
        self,
        document_id: str,
        *,
        document_name: str,
        tag_ids: Sequence[str],
        upload_date: datetime | str | Unset = UNSET,
        text: str | Unset | None = UNSET,
        text_ref: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        pages: Sequence[PageOfText | Mapping[str, int]] | Unset = UNSET,
        content_type: str | Unset | None = UNSET,
        source_digest: str | Unset | None = UNSET,
        embedding_text: str | Unset | None = UNSET,
        reading_warnings: Sequence[str] | Unset | None = UNSET,
        revision: int | Unset | None = UNSET,
    ) -> ApiCall[AcceptedChange]:
        """Create or replace a document. `upload` also takes texts that are too long for one request.

        Args:
            upload_date: by default the time at which the server takes the request.
            text_ref: reference of a stored text, instead of `text`.
            embedding_text: text that is embedded in place of `text`; each has at most 8,000 characters then.
            reading_warnings: sentences on what was left out or assumed when the text was read from a file.
            revision: any integer that rises with each change of the document; by default the last known one plus 1.
        """
        return ApiCall(
            "PUT",
            "/documents/{document_id}",
            AcceptedChange,
            ids={"document_id": document_id},
            body=without_unset(
                {
                    "document_name": document_name,
                    "tag_ids": tag_ids,
                    "upload_date": upload_date,
                    "text": text,
                    "text_ref": text_ref,
                    "metadata": encode_metadata(metadata),
                    "pages": pages,
                    "content_type": content_type,
                    "source_digest": source_digest,
                    "embedding_text": embedding_text,
                    "reading_warnings": reading_warnings,
                    "revision": revision,
                }
            ),
        )

    @operation
    def store_text(
        self, document_id: str, text: str | bytes, *, on_progress: UploadProgress | None = None
    ) -> ApiCall[StoredTextView]:
        """Store a long text, and return the `text_ref` with which `put` gives it to the document within a day.

        Args:
            text: text; bytes are UTF-8.
            on_progress: is called with the number of bytes sent and of all bytes. It begins again when the request is
                repeated.
        """
        content = text.encode() if isinstance(text, str) else text
        return ApiCall(
            "PUT",
            "/documents/{document_id}/text",
            StoredTextView,
            ids={"document_id": document_id},
            upload=UploadedText(content, on_progress),
        )

    @operation
    def replace_tags(
        self, document_id: str, *, tag_ids: Sequence[str], revision: int | Unset | None = UNSET
    ) -> ApiCall[AcceptedChange]:
        """Replace all tags of a document."""
        return ApiCall(
            "PATCH",
            "/documents/{document_id}/tags",
            AcceptedChange,
            ids={"document_id": document_id},
            body=without_unset({"tag_ids": tag_ids, "revision": revision}),
        )

    @operation
    def replace_metadata(
        self, document_id: str, *, metadata: Mapping[str, Any], revision: int | Unset | None = UNSET
    ) -> ApiCall[AcceptedChange]:
        """Replace all metadata of a document."""
        return ApiCall(
            "PATCH",
            "/documents/{document_id}/metadata",
            AcceptedChange,
            ids={"document_id": document_id},
            body=without_unset({"metadata": encode_metadata(metadata), "revision": revision}),
        )

    @operation
    def delete(self, document_id: str, *, revision: int | None = None) -> ApiCall[AcceptedChange]:
        """Delete a document with everything up to this revision."""
        return ApiCall(
            "DELETE",
            "/documents/{document_id}",
            AcceptedChange,
            ids={"document_id": document_id},
            query={"revision": revision},
        )

    @operation
    def batch(self, documents: Sequence[Mapping[str, Any]]) -> ApiCall[BatchOutcomes]:
        """Create, change or delete up to 100 documents, each with an outcome of its own. `in_batches` sends any number.

        Args:
            documents: arguments of `put` for each document, with its `document_id`; or those of `replace_tags`,
                `replace_metadata` or `delete`, with the name of the method as `action`.
        """
        sent = [
            {**each, "metadata": encode_metadata(each["metadata"])} if "metadata" in each else each
            for each in documents
        ]
        return ApiCall("POST", "/documents:batch", BatchOutcomes, body={"documents": sent})

    def in_batches(self, *, on_progress: BatchProgress | None = None) -> AsyncDocumentBatches:
        """Return a context that collects documents and sends them in batches.

        async with client.documents.in_batches() as batches:
            for file in files:
                await batches.put(file.id, file.text, document_name=file.name, tag_ids=["handbook"])

        Raises:
            BatchFailed: on leaving the block: documents were refused; it says which, and why. All others were accepted.
        """
        return AsyncDocumentBatches(self.upload, self.batch, on_progress=on_progress)

    async def upload(
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
        on_progress: UploadProgress | None = None,
    ) -> AcceptedChange:
        """Create or replace a document with a text of any length, which is stored first if it is long.

        Args:
            upload_date: by default now.
            on_progress: is called with the number of bytes of the text sent so far and of all.
        """
        size_bytes = len(text.encode())
        text_ref: str | Unset = UNSET
        if size_bytes > MAX_TEXT_IN_BATCH_BYTES:
            text_ref = (await self.store_text(document_id, text, on_progress=on_progress)).text_ref
        accepted = await self.put(
            document_id,
            document_name=document_name,
            tag_ids=tag_ids,
            upload_date=upload_date or datetime.now(UTC),
            text=text if isinstance(text_ref, Unset) else UNSET,
            text_ref=text_ref,
            metadata=metadata,
            pages=pages,
            content_type=content_type,
            source_digest=source_digest,
            reading_warnings=reading_warnings,
            revision=revision,
        )
        if on_progress is not None and isinstance(text_ref, Unset):
            on_progress(size_bytes, size_bytes)
        return accepted

    @listing
    def list_chunks(
        self,
        document_id: str,
        *,
        kb_id: str,
        around: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[ChunkList, ChunkView]:
        """Return a page of the chunks of a document in a knowledge base, in the order of its text.

        Args:
            around: id of a chunk that the page must contain.
        """
        return PageCall(
            "GET",
            "/documents/{document_id}/chunks",
            ChunkList,
            ids={"document_id": document_id},
            query={"kb_id": kb_id, "around": around, "skip": skip, "limit": limit},
            items=lambda page: page.chunks,
        )

    @listing
    def list(
        self,
        *,
        name_search: str | None = None,
        tag_id: str | None = None,
        id_prefix: str | None = None,
        document_ids: str | Sequence[str] | None = None,
        status: DocumentListFilter | None = None,
        kb_id: str | None = None,
        in_no_kb: bool | None = None,
        sort: DocumentSort | None = None,
        cursor: str | None = None,
        skip: int | None = None,
        limit: int | None = None,
    ) -> PageCall[DocumentPage, DocumentSummary]:
        """Return a page of the documents of the organization.

        Args:
            id_prefix: beginning of the ids, in the same case.
            document_ids: only these documents, at most 50.
        """
        return PageCall(
            "GET",
            "/documents",
            DocumentPage,
            query={
                "name_search": name_search,
                "tag_id": tag_id,
                "id_prefix": id_prefix,
                "document_ids": joined_values(document_ids),
                "status": status,
                "kb_id": kb_id,
                "in_no_kb": in_no_kb,
                "sort": sort,
                "cursor": cursor,
                "skip": skip,
                "limit": limit,
            },
            items=lambda page: page.documents,
        )
