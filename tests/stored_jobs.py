"""Reads the jobs of a KB, which no service needs all of."""

from collections.abc import AsyncIterator

from pymongo import ASCENDING

from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJob
from kb_shared.mongo.index_jobs.job import ROWS
from kb_shared.mongo.keys import KnowledgeBaseKey


async def jobs_of_kb(database: Database, key: KnowledgeBaseKey) -> AsyncIterator[IndexJob]:
    """Yield the jobs in the order of `document_id`."""
    query = {"organization_id": key.organization_id, "kb_id": key.kb_id}
    async for row in database[index_jobs.NAME].find(query).sort("document_id", ASCENDING):
        yield ROWS.read(row)
