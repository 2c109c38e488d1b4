"""Shows sources, runs and MCP servers as responses do. Pure."""

from collections.abc import Mapping
from datetime import datetime

from kb_contracts.api.knowledge_sources import (
    CONFIG_OF_KIND,
    ItemCounts,
    KnowledgeSourceView,
    PreviewedItem,
    SourcePreview,
    SourceRunView,
)
from kb_contracts.api.mcp_servers import McpServerView
from kb_knowledge.sources.schedule import list_next_runs
from kb_knowledge.store.knowledge_sources import KnowledgeSource
from kb_knowledge.store.mcp_servers import McpServer
from kb_knowledge.store.source_runs import SourceRun


def source_view(source: KnowledgeSource) -> KnowledgeSourceView:
    return KnowledgeSourceView(
        source_id=source.source_id,
        label=source.label,
        kind=source.kind.value,
        config=CONFIG_OF_KIND[source.kind].model_validate(source.config),
        cron_expression=source.cron_expression,
        enabled=source.enabled,
        next_run_at=source.next_run_at,
        next_run_times=_next_run_times(source),
        last_run_at=source.last_run_at,
        last_run_status=source.last_run_status,
        last_run_error=source.last_run_error,
        last_run_entry_count=source.last_run_entry_count,
        created_at=source.created_at,
        created_by=source.created_by,
        updated_at=source.updated_at,
        updated_by=source.updated_by,
    )


def _next_run_times(source: KnowledgeSource) -> list[datetime]:
    if source.cron_expression is None or source.next_run_at is None:
        return []
    return list_next_runs(source.cron_expression, source_id=source.source_id, first=source.next_run_at)


def run_view(run: SourceRun) -> SourceRunView:
    return SourceRunView(
        run_id=run.run_id,
        source_id=run.source_id,
        trigger=run.trigger.value,
        status=run.status.value,
        requested_at=run.requested_at,
        requested_by=run.requested_by,
        started_at=run.started_at,
        finished_at=run.finished_at,
        cancelled=run.cancelled,
        error=run.error,
        counts=_counts(run.counts),
        removed=run.removed,
        withheld=run.withheld,
        warnings=run.warnings,
        bytes_read=run.bytes_read,
        messages=list(run.messages),
    )


def preview_view(run: SourceRun) -> SourcePreview:
    return SourcePreview(
        items=[PreviewedItem.model_validate(item) for item in run.preview],
        counts=_counts(run.counts),
        warnings=run.warnings,
        messages=list(run.messages),
        error=run.error,
    )


def mcp_server_view(server: McpServer) -> McpServerView:
    return McpServerView(
        mcp_server_id=server.mcp_server_id,
        label=server.label,
        url=server.url,
        header_names=list(server.header_names),
        created_at=server.created_at,
        created_by=server.created_by,
        updated_at=server.updated_at,
        updated_by=server.updated_by,
    )


def _counts(counts: Mapping[str, int] | None) -> ItemCounts:
    return ItemCounts.model_validate(dict(counts or {}))
