from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from kb_client.async_client.operation import AsyncResource, operation
from kb_client.call import ApiCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.check_ins import CheckInView
from kb_contracts.api.knowledge_imports import ImportReport
from kb_contracts.api.knowledge_retrieval import EntrySearchResponse, RetrievedKnowledge
from kb_contracts.api.search import SearchOrigin
from kb_contracts.knowledge.entry_fields import KnowledgeTypeName

IMPORT_WITHIN_S: Final = 300.0


class AsyncKnowledge(AsyncResource):
    """Curated knowledge: entries of the organization, and what is known about an entity."""

    @operation
    def search(
        self,
        q: str,
        *,
        limit: int | None = None,
        types: Sequence[str] | str | None = None,
        origin: SearchOrigin | None = None,
        agent_id: str | None = None,
    ) -> ApiCall[EntrySearchResponse]:
        """Search entries by meaning and by words, and return their best matching passages.

        Args:
            q: question or words.
            limit: greatest number of passages, by default 20.
            types: only entries with one of these types, or from a source of one of these kinds.
            origin: kind of client, for the query log. Default: that of this client.
            agent_id: agent that asks, for the query log.
        """
        return ApiCall(
            "GET",
            "/knowledge/search",
            EntrySearchResponse,
            query={
                "q": q,
                "limit": limit,
                "types": types if types is None or isinstance(types, str) else ",".join(types) or None,
                "origin": origin,
                "agent_id": agent_id,
            },
        )

    @operation
    def retrieve(
        self,
        query: str,
        *,
        entity_id: str | Unset | None = UNSET,
        top_k: int | Unset = UNSET,
        knowledge_types: Sequence[KnowledgeTypeName] | Unset | None = UNSET,
        info_types: Sequence[str] | Unset | None = UNSET,
        tags: Sequence[str] | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        depth: int | Unset = UNSET,
        metadata_info_type: str | Unset = UNSET,
        item_delimiter: str | Unset = UNSET,
        formatters: Mapping[str, Mapping[Literal["kind", "template"], Any]] | Unset = UNSET,
    ) -> ApiCall[RetrievedKnowledge]:
        """Return properties of an entity, pieces that belong to a query, relations, and the sections of a prompt.

        Args:
            query: question or task; a blank one searches for no pieces.
            entity_id: entity that is asked about, such as `user:alice`.
            top_k: greatest number of pieces that the search finds, by default 5.
            knowledge_types: only pieces of these kinds.
            info_types: only pieces of these sections.
            tags: only pieces with one of these tags.
            kb_ids: knowledge bases to search, by default that of the organization's entries.
            depth: number of edges to follow from the entity, by default 1.
            metadata_info_type: section that properties go to, by default `user_profile`.
            item_delimiter: text between two pieces of a section.
            formatters: template for the section of an info type, such as `{"kind": "jinja2", "template": "..."}`.
        """
        return ApiCall(
            "POST",
            "/knowledge:retrieve",
            RetrievedKnowledge,
            only_reads=True,
            body=without_unset(
                {
                    "query": query,
                    "entity_id": entity_id,
                    "top_k": top_k,
                    "knowledge_types": knowledge_types,
                    "info_types": info_types,
                    "tags": tags,
                    "kb_ids": kb_ids,
                    "depth": depth,
                    "metadata_info_type": metadata_info_type,
                    "item_delimiter": item_delimiter,
                    "formatters": formatters,
                }
            ),
        )

    @operation
    def import_document(
        self,
        *,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        pieces: Sequence[Any] | Unset | None = UNSET,
        graph: Mapping[str, Any] | Unset | None = UNSET,
        dry_run: bool | None = None,
    ) -> ApiCall[ImportReport]:
        """Store entities, pieces and a graph. Invalid items are skipped, each with a reason.

        Args:
            metadata: entities by their ids, each with `entity_type` and `properties`.
            pieces: pieces, each with `content` and `knowledge_type`.
            graph: lists `nodes` and `edges`.
            dry_run: only say what would happen.
        """
        return ApiCall(
            "POST",
            "/knowledge:import",
            ImportReport,
            query={"dry_run": dry_run},
            body=without_unset({"metadata": metadata, "pieces": pieces, "graph": graph}),
            within_s=IMPORT_WITHIN_S,
        )

    @operation
    def structure(
        self,
        *,
        text: str,
        model: str | Unset | None = UNSET,
        max_retries: int | Unset = UNSET,
        apply: bool | Unset = UNSET,
    ) -> ApiCall[CheckInView]:
        """Let a chat model propose entities, pieces and a graph from a text.

        Args:
            text: notes as people write them.
            model: name of an allowed chat model; by default that of the deployment.
            max_retries: how often the model is told what is wrong with its answer.
            apply: import the proposal at once.
        """
        return ApiCall(
            "POST",
            "/knowledge:structure",
            CheckInView,
            body=without_unset({"text": text, "model": model, "max_retries": max_retries, "apply": apply}),
            within_s=IMPORT_WITHIN_S,
        )
