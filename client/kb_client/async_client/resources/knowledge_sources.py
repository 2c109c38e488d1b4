from collections.abc import Mapping
from typing import Any

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall, UploadedText
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.knowledge_sources import (
    KnowledgeSourceList,
    KnowledgeSourceView,
    SourceFile,
    SourceKindName,
    SourcePreview,
    SourceRunList,
    SourceRunView,
)
from kb_contracts.api.model import MessageResponse


class AsyncKnowledgeSources(AsyncResource):
    """Sources: web sites, files and MCP servers that entries are fetched from."""

    @operation
    def create(
        self,
        *,
        label: str,
        kind: SourceKindName,
        config: Mapping[str, Any],
        cron_expression: str | Unset | None = UNSET,
        enabled: bool | Unset = UNSET,
    ) -> ApiCall[KnowledgeSourceView]:
        """Create a source. Without `cron_expression`, it is read only when `run` asks for it.

        Args:
            config: what the kind needs: `{"url", "depth", "prefixes"}` for `url_crawl`, `{"filename", "file_id"}` for
                `file_upload`, `{"mcp_server_id", "resource_pattern"}` for `mcp`.
            cron_expression: five fields, in UTC.
        """
        return ApiCall(
            "POST",
            "/knowledge-sources",
            KnowledgeSourceView,
            body=without_unset(
                {
                    "label": label,
                    "kind": kind,
                    "config": config,
                    "cron_expression": cron_expression,
                    "enabled": enabled,
                }
            ),
        )

    @listing
    def list(
        self, *, skip: int | None = None, limit: int | None = None
    ) -> PageCall[KnowledgeSourceList, KnowledgeSourceView]:
        """Return a page of the sources, newest first."""
        return PageCall(
            "GET",
            "/knowledge-sources",
            KnowledgeSourceList,
            query={"skip": skip, "limit": limit},
            items=lambda page: page.sources,
        )

    @operation
    def get(self, source_id: str) -> ApiCall[KnowledgeSourceView]:
        """Return a source with the outcome of its last run."""
        return ApiCall("GET", "/knowledge-sources/{source_id}", KnowledgeSourceView, ids={"source_id": source_id})

    @operation
    def update(
        self,
        source_id: str,
        *,
        label: str | Unset = UNSET,
        config: Mapping[str, Any] | Unset = UNSET,
        cron_expression: str | Unset | None = UNSET,
        enabled: bool | Unset = UNSET,
    ) -> ApiCall[KnowledgeSourceView]:
        """Change the given fields. A run that has begun reads the source as it was."""
        return ApiCall(
            "PATCH",
            "/knowledge-sources/{source_id}",
            KnowledgeSourceView,
            ids={"source_id": source_id},
            body=without_unset(
                {"label": label, "config": config, "cron_expression": cron_expression, "enabled": enabled}
            ),
        )

    @operation
    def delete(self, source_id: str) -> ApiCall[MessageResponse]:
        """Delete a source with its history. Its entries stay."""
        return ApiCall("DELETE", "/knowledge-sources/{source_id}", MessageResponse, ids={"source_id": source_id})

    @operation
    def run(self, source_id: str) -> ApiCall[SourceRunView]:
        """Let a runner read the source now."""
        return ApiCall("POST", "/knowledge-sources/{source_id}/run", SourceRunView, ids={"source_id": source_id})

    @operation
    def preview(self, source_id: str) -> ApiCall[SourcePreview]:
        """Read the first items of a source and return what would become entries. Nothing is stored."""
        return ApiCall("POST", "/knowledge-sources/{source_id}/preview", SourcePreview, ids={"source_id": source_id})

    @listing
    def list_runs(
        self, source_id: str, *, skip: int | None = None, limit: int | None = None
    ) -> PageCall[SourceRunList, SourceRunView]:
        """Return a page of the runs of a source, newest first."""
        return PageCall(
            "GET",
            "/knowledge-sources/{source_id}/runs",
            SourceRunList,
            ids={"source_id": source_id},
            query={"skip": skip, "limit": limit},
            items=lambda page: page.runs,
        )

    @operation
    def get_run(self, source_id: str, *, source_run_id: str) -> ApiCall[SourceRunView]:
        """Return a run with its messages."""
        return ApiCall(
            "GET",
            "/knowledge-sources/{source_id}/runs/{source_run_id}",
            SourceRunView,
            ids={"source_id": source_id, "source_run_id": source_run_id},
        )

    @operation
    def cancel_run(self, source_id: str, *, source_run_id: str) -> ApiCall[SourceRunView]:
        """End a run within 5 s. What it has read is kept."""
        return ApiCall(
            "POST",
            "/knowledge-sources/{source_id}/runs/{source_run_id}/cancel",
            SourceRunView,
            ids={"source_id": source_id, "source_run_id": source_run_id},
        )

    @operation
    def upload_file(self, filename: str, content: bytes) -> ApiCall[SourceFile]:
        """Upload a file for a source of the kind `file_upload`; its `file_id` goes into `config`.

        Args:
            filename: name without a folder; its end names the format.
            content: at most 50 MB.
        """
        return ApiCall(
            "POST",
            "/knowledge-sources/files",
            SourceFile,
            query={"filename": filename},
            upload=UploadedText(content, content_type="application/octet-stream"),
        )
