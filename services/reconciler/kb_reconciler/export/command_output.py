"""Describes exports and imports for people and, as JSON, for programs."""

from pathlib import Path
from typing import Any

from kb_reconciler.export.import_plan import ImportPlan, ImportRequest
from kb_reconciler.export.kbx import KbxManifest


def describe_export(file: Path, manifest: KbxManifest) -> str:
    counts = manifest.counts
    lines = [
        f"{file}: {counts.documents} documents, {counts.tags} tags, {counts.chunks} chunks, {counts.vectors} vectors"
    ]
    if manifest.contents == "config-only":
        lines = [f"{file}: the configuration and {counts.tags} tags"]
    if counts.documents_left_out:
        lines.append(f"{counts.documents_left_out} documents that are about to leave the knowledge base are left out")
    if manifest.contents == "full" and (unknown := counts.distinct_chunks - counts.vectors):
        lines.append(
            f"{unknown} of {counts.distinct_chunks} vectors are left out, because it was not noted which provider "
            "computed them: an import embeds their chunks again. To have it noted, reindex the knowledge base, which "
            "embeds nothing that is in the cache, and export again"
        )
    if counts.documents_changed:
        lines.append(
            f"{counts.documents_changed} documents have changed and are not indexed again yet: embedded at import"
        )
    return "\n".join(lines)


def describe_plan(plan: ImportPlan) -> str:
    documents = f"{plan.documents_new} new documents, {plan.documents_reused} that the organization has already"
    lines = [
        f"{documents}; {plan.vectors} vectors are used",
        f"to embed and to charge: at most {plan.spus_at_most} chunks (SPUs)",
    ]
    if plan.documents_changed:
        lines.append(f"and the chunks of {plan.documents_changed} documents that changed before the export")
    if plan.embeds_sentences:
        chunker = plan.configuration.chunker_type
        lines.append(f"and sentences, because the chunker {chunker!r} embeds them: several for each chunk")
    return "\n".join(lines)


def summarize(plan: ImportPlan, request: ImportRequest, kb_id: str) -> dict[str, Any]:
    return {
        "kb_id": kb_id,
        "organization_id": request.organization_id,
        "imported_before": plan.imported_before is not None,
        "documents_new": plan.documents_new,
        "documents_reused": plan.documents_reused,
        "vectors": plan.vectors,
        "spus_at_most": plan.spus_at_most,
        "embeds_sentences": plan.embeds_sentences,
    }


def describe_import(outcome: dict[str, Any]) -> str:
    kb_id, organization_id = outcome["kb_id"], outcome["organization_id"]
    if outcome["imported_before"]:
        return f"this file was imported before, as knowledge base {kb_id}. To import it once more: --again"
    return (
        f"imported as knowledge base {kb_id}. kb-api and the indexer build it; its status:\n"
        f"GET /v0/orgs/{organization_id}/knowledge-bases/{kb_id}"
    )
