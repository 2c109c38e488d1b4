"""Refuses texts with credentials for a KB that asks for it."""

from functools import partial

from kb_indexer.chunking_threads import ChunkingThreads
from kb_shared.errors import SensitiveDocument
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.observability.metrics import CONTENT_REFUSED
from kb_shared.text.sensitive_content import find_sensitive


async def refuse_sensitive(text: str, kb: KnowledgeBase, *, threads: ChunkingThreads) -> None:
    """Check the text of a document, if its KB has `refuse_sensitive`.

    Raises:
        SensitiveDocument: it contains a credential.
    """
    if not kb.refuse_sensitive:
        return
    found = await threads.work(kb.organization_id, text, partial(find_sensitive, text))
    if found is not None:
        CONTENT_REFUSED.labels(found.pattern).inc()
        raise SensitiveDocument(
            f"line {found.line} contains a credential ({found.pattern}), and the knowledge base refuses such texts; "
            "remove it and publish the text again"
        )
