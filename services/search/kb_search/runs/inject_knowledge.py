"""Retrieves knowledge for the prompts of one run, each question once."""

import structlog
from pymongo.errors import PyMongoError

from kb_contracts.knowledge.retrieval import RetrievalResult
from kb_contracts.reserved_ids import document_id_of
from kb_search.knowledge.retrieve_knowledge import KnowledgeQuery, KnowledgeRetrieval
from kb_search.knowledge.section_templates import compile_templates
from kb_search.retrieval.query import SearchCaller
from kb_search.runs.injected_message import InjectedPieces, InjectionSource
from kb_search.runs.passages import CitedPassage
from kb_search.runs.run_tools import RunTools
from kb_search.store.entry_chunks import find_first_chunks
from kb_shared.errors import KbError, RequestError
from kb_shared.mongo import api_keys, knowledge_bases, knowledge_entries, vectors
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database

log = structlog.get_logger()


class KnowledgeInjector:
    """Retrieves the knowledge that one run injects."""

    def __init__(
        self,
        database: Database,
        retrieval: KnowledgeRetrieval,
        *,
        organization_id: str,
        source: InjectionSource,
        tools: RunTools,
        search_caller: SearchCaller,
    ) -> None:
        self._database = database
        self._retrieval = retrieval
        self._organization_id = organization_id
        self._source = source
        self._tools = tools
        self._search_caller = search_caller
        self._memory: dict[str, InjectedPieces] = {}

    async def retrieve(self, user_input: str) -> InjectedPieces:
        """Return the knowledge for a question; a question that was asked before is answered from memory.

        Raises:
            RequestError: 422, a formatter reached its limits.
        """
        knowledge = self._source.injection.knowledge
        if knowledge.mode == "none":
            return InjectedPieces()
        query = user_input if knowledge.mode == "dynamic" and self._tools.has_spus else ""
        if query not in self._memory:
            self._memory[query] = await self._describe(await self._retrieve_or_degrade(query))
        return self._memory[query]

    async def _retrieve_or_degrade(self, query: str) -> RetrievalResult:
        """Retrieve without the search if it fails, and nothing if all fails: the run goes on as after a failed tool."""
        for text in dict.fromkeys((query, "")):
            try:
                with self._tools.counting_spus():
                    answer = await self._retrieval.retrieve(
                        self._organization_id, query=self._query(text), search_caller=self._search_caller, key=None
                    )
            except RequestError:
                raise
            except (KbError, PyMongoError) as error:
                log.warning("run.injection_failed", run_id=self._search_caller.run_id, error_type=type(error).__name__)
            else:
                return answer.result
        return RetrievalResult()

    def _query(self, text: str) -> KnowledgeQuery:
        knowledge = self._source.injection.knowledge
        return KnowledgeQuery(text=text, entity_id=self._source.entity_id, top_k=knowledge.top_k, depth=knowledge.depth)

    async def _describe(self, result: RetrievalResult) -> InjectedPieces:
        piece_ids = [piece.piece_id for piece in result.pieces]
        return InjectedPieces(
            result,
            trusted=await self._find_trusted(piece_ids),
            numbers=await self._number(result),
            formatters=compile_templates(self._source.injection.knowledge.formatters),
        )

    async def _find_trusted(self, piece_ids: list[str]) -> set[str]:
        """Return the pieces that only administrators of this organization wrote; what a source fetched is none."""
        entries = await knowledge_entries.find_by_ids(self._database, self._organization_id, entry_ids=piece_ids)
        keys = await api_keys.find_all(
            self._database, {author for entry in entries.values() for author in entry.authors or ()}
        )
        admins = {
            key_id
            for key_id, stored in keys.items()
            if stored.key.organization_id == self._organization_id and Scope.ADMIN in stored.key.scopes
        }
        return {entry_id for entry_id, entry in entries.items() if entry.authors and admins.issuperset(entry.authors)}

    async def _number(self, result: RetrievalResult) -> dict[str, int]:
        """Make the pieces passages of the run, so that the answer can cite them; return their numbers."""
        kb = await knowledge_bases.find_knowledge(self._database, self._organization_id)
        if kb is None:
            return {}
        documents = {document_id_of(piece.piece_id): piece for piece in result.pieces}
        chunks = await find_first_chunks(vectors.chunks_of(self._database, kb), list(documents))
        numbers = {}
        for document_id, piece in documents.items():
            if (chunk := chunks.get(document_id)) is None:
                continue
            passage = self._tools.passages.add(
                CitedPassage(
                    number=0,
                    citation=chunk["_id"],
                    kb_id=kb.kb_id,
                    document_id=document_id,
                    document_name=chunk["document_name"],
                    chunk_index=0,
                    page_start=None,
                    page_end=None,
                    relevance=piece.score,
                    truncated=False,
                    text=chunk["chunk_text"],
                    start=chunk["start"],
                    end=chunk["end"],
                    heading_path=tuple(chunk["heading_path"]),
                )
            )
            numbers[piece.piece_id] = passage.number
        return numbers
