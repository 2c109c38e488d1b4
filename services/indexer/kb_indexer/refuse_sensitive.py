"""Refuses texts with credentials for a KB that asks for it."""

from functools import partial

from kb_indexer.chunking_threads import ChunkingThreads
from kb_shared.errors import SensitiveDocument
from kb_shared.mongo.document_texts import StoredText
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability.metrics import CONTENT_REFUSED
from kb_shared.text.sensitive_content import find_sensitive


async def refuse_sensitive(stored: StoredText, kb: KnowledgeBase, *, threads: ChunkingThreads) -> None:
    """Check the texts of a document, if its KB has `refuse_sensitive`.

    Raises:
        SensitiveDocument: one of them contains a credential.
    """
    if not kb.refuse_sensitive:
        return
    for place, text in (("", stored.text), (" of the embedding text", stored.embedding_text)):
        if text is None:
            continue
        found = await threads.work(kb.organization_id, text, partial(find_sensitive, text))
        if found is not None:
            CONTENT_REFUSED.labels(found.pattern).inc()
            raise SensitiveDocument(
                f"line {found.line}{place} contains a credential ({found.pattern}), and the knowledge base refuses "
                "such texts; remove it and publish the text again"
            )
