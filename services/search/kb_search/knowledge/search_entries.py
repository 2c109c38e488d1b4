"""The use case of a search of entries: one hybrid search in the knowledge base of the organization's entries."""

from collections.abc import Sequence
from typing import Final

from kb_search.knowledge.entry_criteria import criteria_of_types
from kb_search.knowledge.retrieve_knowledge import find_entries_kb_ids
from kb_search.retrieval.query import SearchCaller, SearchQuery
from kb_search.retrieval.search_knowledge_base import KnowledgeBaseSearch, SearchAnswer
from kb_shared.http.authentication import CachedKey
from kb_shared.mongo.database import Database

_CANDIDATES_OF_A_HIT: Final = 3
_MAX_CANDIDATES_OF_A_LEG: Final = 100


class EntrySearch:
    """Searches entries. There is one in each process."""

    def __init__(self, database: Database, search: KnowledgeBaseSearch) -> None:
        self._database = database
        self._search = search

    async def search(
        self,
        organization_id: str,
        text: str,
        *,
        limit: int,
        types: Sequence[str],
        search_caller: SearchCaller,
        key: CachedKey | None = None,
        max_tokens: int | None = None,
    ) -> SearchAnswer:
        """Find the passages of entries that match best.

        Args:
            organization_id: Organization of the caller.
            text: Query.
            limit: Greatest number of passages.
            types: Types of entries and kinds of sources, of which an entry must have one; empty: any.
            search_caller: Caller, as the query log shows it.
            key: API key of the caller, which is read again while the search works; None: it was read for this call.
            max_tokens: Token budget of all passages; None: no limit.

        Raises:
            RequestError, TransientError: as a search of the knowledge base does.
        """
        query = SearchQuery(
            text,
            top_k=limit,
            coalesce_neighbors=0,
            max_tokens=max_tokens,
            criteria=criteria_of_types(types),
            candidates_of_leg=min(_CANDIDATES_OF_A_HIT * limit, _MAX_CANDIDATES_OF_A_LEG),
        )
        kb_ids = await find_entries_kb_ids(self._database, organization_id, limited_to=search_caller.kb_ids)
        return await self._search.search_several(
            organization_id, kb_ids=kb_ids, query=query, search_caller=search_caller, key=key
        )
