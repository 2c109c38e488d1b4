"""Reads the filters of the list of entries from its query parameters."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Query

from kb_contracts.api.knowledge_entries import EmbeddingStatus
from kb_contracts.api.model import Timestamp
from kb_contracts.knowledge.entry_fields import KnowledgeType
from kb_shared.http.problems import invalid_field
from kb_shared.mongo.knowledge_entries import EntryFilter


async def _read_filters(
    *,
    q: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Part of the title or the content, regardless of case."),
    ] = None,
    source_type: Annotated[
        str | None,
        Query(min_length=1, max_length=40, description="Kind of the source; without a source, type of the entry."),
    ] = None,
    embedding_status: Annotated[EmbeddingStatus | None, Query(description="Only with this status.")] = None,
    created_from: Annotated[
        Timestamp | None, Query(alias="from", description="Earliest time of creation, included.")
    ] = None,
    created_to: Annotated[Timestamp | None, Query(alias="to", description="Latest time of creation, included.")] = None,
    tag: Annotated[str | None, Query(min_length=1, max_length=128, description="Only with this tag.")] = None,
    info_type: Annotated[
        str | None, Query(min_length=1, max_length=64, description="Only with this info type.")
    ] = None,
    knowledge_type: Annotated[KnowledgeType | None, Query(description="Only pieces of this kind.")] = None,
    entity_id: Annotated[
        str | None, Query(min_length=1, max_length=256, description="Only entries that belong to this entity.")
    ] = None,
    source_id: Annotated[str | None, Query(min_length=1, max_length=128, description="Only of this source.")] = None,
) -> EntryFilter:
    if created_from is not None and created_to is not None and created_from > created_to:
        raise invalid_field("from", "must not be later than `to`")
    return EntryFilter(
        q=q,
        source_type=source_type,
        embedding_status=embedding_status,
        created_from=created_from,
        created_to=created_to,
        tag=tag,
        info_type=info_type,
        knowledge_type=knowledge_type,
        entity_id=entity_id,
        source_id=source_id,
    )


WantedEntries: TypeAlias = Annotated[EntryFilter, Depends(_read_filters)]
"""Conditions that the caller of the list named."""
