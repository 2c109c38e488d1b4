"""Detects the language of the texts in each KB, so that a text analyzer that does not fit them can be warned of.

A KB is looked at again when documents have come, changed or gone. A few of its chunks are read, however many it has.
"""

import asyncio
import random
from datetime import timedelta
from typing import Final
from uuid import uuid4

import structlog
from pymongo.errors import PyMongoError

from kb_api.preview_unavailable import PreviewUnavailable
from kb_api.text_language import SAMPLED_CHARACTERS, main_language
from kb_api.text_worker.client import TextWorker
from kb_shared.errors import TransientError
from kb_shared.mongo import kb_slots, knowledge_bases, leases, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey

SAMPLED_CHUNKS: Final = 20
KBS_OF_ROUND: Final = 20
_PAUSE_S: Final = 300.0
"""Time between two rounds. The text worker starts for a round with work, and stays for a minute."""
_LEASE: Final = "text-languages"
_LEASE_LENGTH: Final = timedelta(seconds=2 * _PAUSE_S)
_LEAST_CHARACTERS: Final = 50
"""Length of the shortest text that is looked at: a few words are often taken for another language."""

log = structlog.get_logger()


async def keep_detecting_languages(database: Database, worker: TextWorker) -> None:
    """Make a round every five minutes, for ever, in one of all replicas; cancel to stop."""
    owner = str(uuid4())
    while True:
        await asyncio.sleep(_PAUSE_S)
        try:
            if await leases.acquire(database, _LEASE, owner=owner, length=_LEASE_LENGTH):
                await detect_languages(database, worker)
        except (PyMongoError, TransientError) as error:
            log.warning("language_detection.interrupted", error=type(error).__name__)


async def detect_languages(database: Database, worker: TextWorker) -> None:
    """Detect the language of KBs whose documents have changed since it was detected, at most `KBS_OF_ROUND`."""
    # Read first: what is written from now on is looked at in the next round.
    writes = await kb_slots.sum_writes(database)
    detected_at = await knowledge_bases.find_writes_at_detection(database)
    due = [key for key, seen in detected_at.items() if writes.get(key.kb_id, 0) != seen]
    # At random, so that one whose detection fails again and again keeps no other waiting.
    for key in random.sample(due, min(len(due), KBS_OF_ROUND)):  # not for security
        try:
            await _detect(database, worker, key=key, writes=writes.get(key.kb_id, 0))
        except PreviewUnavailable:
            log.warning("language_detection.failed", kb_id=key.kb_id)


async def _detect(database: Database, worker: TextWorker, *, key: KnowledgeBaseKey, writes: int) -> None:
    kb = await knowledge_bases.find(database, key)
    if kb is None:
        return
    sampled = await vectors.sample_texts(vectors.chunks_of(database, kb), at_most=SAMPLED_CHUNKS)
    texts = [text[:SAMPLED_CHARACTERS] for text in sampled if len(text) >= _LEAST_CHARACTERS]
    language = main_language(await worker.detect_languages(key.organization_id, texts) if texts else [])
    await knowledge_bases.set_text_language(database, key, language.code, writes=writes)
