"""Refuses documents with credentials for a KB that asks for it. Runs before anything of the document is paid for."""

from functools import partial

from kb_indexer.chunking_threads import ChunkingThreads
from kb_indexer.state_reader import StateReader
from kb_shared.errors import SensitiveDocument, TransientError
from kb_shared.mongo.bulk_lookup import OrganizationKey
from kb_shared.mongo.documents import Document
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.text.content_check import check_content


class SensitiveDocuments:
    """Checks documents. The text is checked in the threads for chunking: 20 MB take 40 s."""

    def __init__(self, state_reader: StateReader, threads: ChunkingThreads) -> None:
        self._state_reader = state_reader
        self._threads = threads

    async def refuse(self, kb: KnowledgeBase, document: Document, *, with_text: bool) -> None:
        """Check a document, if its KB has `refuse_sensitive`.

        Args:
            with_text: False if its text was checked before, and only its name and metadata may be new.

        Raises:
            SensitiveDocument: it contains a credential.
            TransientError: its text is not stored any more.
        """
        if not kb.refuse_sensitive:
            return
        if document.text is None:
            return
        if with_text:
            await self._refuse_text(kb, document.text.text_id)
        _check_part(document.text.name, " of the name", is_in_text=False)
        for name, value in document.metadata_values.items():
            # A value may be a credential because of its name.
            _check_part(f"{name}: {value}" if isinstance(value, str) else "", " of the metadata", is_in_text=False)

    async def _refuse_text(self, kb: KnowledgeBase, text_id: str) -> None:
        stored = await self._state_reader.text(OrganizationKey(kb.organization_id, text_id))
        if stored is None:
            raise TransientError("the text of this revision is not stored")
        check = partial(_check_part, stored.text, "", is_in_text=True)
        await self._threads.work(kb.organization_id, stored.text, check)
        _check_part(stored.embedding_text or "", " of the embedding text", is_in_text=True)


def _check_part(text: str, place: str, *, is_in_text: bool) -> None:
    """Raise SensitiveDocument, which says where in the document it is, if `text` contains a credential."""
    if (found := check_content(text)) is not None:
        raise SensitiveDocument(
            f"line {found.line}{place} contains a credential ({found.pattern}), and the knowledge base refuses such "
            "texts; remove it and publish the text again",
            is_in_text=is_in_text,
        )
