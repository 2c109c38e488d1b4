"""Reads from commands sent to MongoDB whether they keep to one organization."""

from collections.abc import Iterator, Mapping
from typing import Any

from kb_api import organization_deletions, pushed_folders
from kb_api.outcome_events import event_log
from kb_api.webhooks import deliveries, webhook_rows
from kb_knowledge.store import check_ins, crawl_frontier, knowledge_sources, mcp_servers, source_items, source_runs
from kb_search.store import prompts, runs
from kb_shared.mongo import (
    agents,
    audit_log,
    backfills,
    budgets,
    circuits,
    citations,
    document_index,
    document_texts,
    documents,
    embedding_cache,
    entities,
    idempotency_keys,
    index_jobs,
    kb_slots,
    knowledge_bases,
    knowledge_entries,
    knowledge_graph,
    llm_providers,
    provider_pauses,
    query_log,
    rate_limits,
    reconcile_passes,
    reconcile_plans,
    spu_ledger,
    tags,
)

TENANT_DATA = {
    knowledge_entries.TOMBSTONES,
    runs.THREADS,
    reconcile_plans.REPAIRS,
    event_log.POSITIONS,
    knowledge_graph.EDGES,
} | {
    module.NAME
    for module in (
        agents,
        audit_log,
        backfills,
        budgets,
        check_ins,
        circuits,
        citations,
        crawl_frontier,
        deliveries,
        document_index,
        document_texts,
        documents,
        embedding_cache,
        entities,
        event_log,
        idempotency_keys,
        index_jobs,
        kb_slots,
        knowledge_bases,
        knowledge_entries,
        knowledge_sources,
        knowledge_graph,
        llm_providers,
        mcp_servers,
        organization_deletions,
        prompts,
        provider_pauses,
        pushed_folders,
        query_log,
        rate_limits,
        reconcile_passes,
        reconcile_plans,
        runs,
        source_items,
        source_runs,
        spu_ledger,
        tags,
        webhook_rows,
    )
}

FOR_ALL_ORGANIZATIONS = {
    index_jobs.NAME: {"state", "queued"},
    backfills.NAME: {"state"},
    knowledge_bases.NAME: {"status"},
    knowledge_entries.NAME: {"embedding_status"},
    knowledge_sources.NAME: {"next_run_at"},
    source_runs.NAME: {"status"},
}
"""Fields of queries that take up work of all organizations, without a KB or document in particular."""

ORGANIZATION_FIELDS = ("organization_id", "scope")
"""The cache is kept by `scope`: an organization, or `global` where the setting says so."""


def queries_without_organization(command: Mapping[str, Any]) -> Iterator[str]:
    """Name each query of `command` on tenant data that any organization's rows could match."""
    kind, collection = next(iter(command.items()))
    if not isinstance(collection, str) or not (collection in TENANT_DATA or collection.startswith("kb_vectors_")):
        return
    for query in _queries(kind, command):
        if not any(field in query for field in ORGANIZATION_FIELDS) and not _is_for_all(collection, query):
            yield f"{kind} {collection} by {', '.join(query)}"


def _is_for_all(collection: str, query: Mapping[str, Any]) -> bool:
    shared = FOR_ALL_ORGANIZATIONS.get(collection, set())
    return not shared.isdisjoint(query) and query.keys().isdisjoint({"kb_id", "document_id"})


def organizations_named(command: Mapping[str, Any]) -> Iterator[str]:
    """The organizations that the queries of `command` are limited to."""
    for query in _queries(next(iter(command)), command):
        for field in ORGANIZATION_FIELDS:
            if isinstance(query.get(field), str):
                yield query[field]


def _queries(kind: str, command: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the filters that select the rows; for an insert the rows themselves."""
    if kind == "aggregate" and "$listSearchIndexes" in (command["pipeline"] or [{}])[0]:
        return []  # reads no rows
    if kind == "aggregate":
        return [_of_stage(pipeline[0] if pipeline else {}) for pipeline in _pipelines(command["pipeline"])]
    if kind in _MANY:
        field, query = _MANY[kind]
        return [part[query] if query else part for part in command[field]]
    return [command.get(_ONE[kind], {})] if kind in _ONE else []


_ONE = {"find": "filter", "findAndModify": "query", "distinct": "query", "count": "query"}
_MANY = {"update": ("updates", "q"), "delete": ("deletes", "q"), "insert": ("documents", None)}


def _pipelines(pipeline: list[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """A pipeline and those within it that read other collections."""
    yield pipeline
    for stage in pipeline:
        for name in ("$unionWith", "$lookup"):
            if name in stage:
                yield from _pipelines(stage[name].get("pipeline", []))
        if "$graphLookup" in stage:
            yield [{"$match": stage["$graphLookup"].get("restrictSearchWithMatch", {})}]


def _of_stage(stage: Mapping[str, Any]) -> Mapping[str, Any]:
    if (search := stage.get("$search") or stage.get("$searchMeta")) is not None:
        clauses = search.get("compound", {}).get("filter", ())
        return {clause["equals"]["path"]: clause["equals"]["value"] for clause in clauses if "equals" in clause}
    query: Mapping[str, Any] = stage.get("$match") or stage.get("$vectorSearch", {}).get("filter", {})
    return query
