"""Documents of a KB that no run cites: a query over `document_index` and `runs`."""

from datetime import datetime

from pymongo import ASCENDING

from kb_search.store import runs
from kb_shared.mongo.database import Database
from kb_shared.mongo.document_index import NAME
from kb_shared.mongo.keys import KnowledgeBaseKey


async def find_uncited(
    database: Database, key: KnowledgeBaseKey, *, since: datetime, until: datetime, skip: int, limit: int
) -> tuple[list[tuple[str, str]], int]:
    """Return one page of documents (id, name) in a KB that no run of that time cites, and how many there are in all."""
    by_document = {
        "_id": {"$ifNull": ["$document_id", "$cited_document"]},
        # The name in this collection. There is none if the document has left the KB since it was cited.
        "document_name": {"$max": "$document_name"},
        "is_cited": {"$max": {"$gt": ["$cited_document", None]}},
    }
    rows = await database[NAME].aggregate(
        [
            {"$match": {"organization_id": key.organization_id, "kb_id": key.kb_id}},
            {"$project": {"document_id": 1, "document_name": 1}},
            runs.cited_documents_stage(key, since=since, until=until),
            {"$group": by_document},
            {"$match": {"is_cited": False}},
            {
                "$facet": {
                    "page": [{"$sort": {"_id": ASCENDING}}, {"$skip": skip}, {"$limit": limit}],
                    "total": [{"$count": "count"}],
                }
            },
        ],
        allowDiskUse=True,
    )
    [found] = await rows.to_list()
    total = found["total"][0]["count"] if found["total"] else 0
    return [(row["_id"], row["document_name"]) for row in found["page"]], total
