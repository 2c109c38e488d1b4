"""Finds the metadata keys of the documents of a KB: their types, how many documents have them, frequent values."""

from typing import Final

import pymongo

from kb_contracts.api.metadata_keys import (
    MetadataKeyList,
    MetadataKeyView,
    MetadataTopValue,
    MetadataType,
    MetadataTypeView,
)
from kb_shared.mongo import documents
from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase

MAX_DOCUMENTS: Final = 10_000
MAX_KEYS: Final = 200
TOP_VALUES: Final = 10
_MAX_VALUE_CHARACTERS: Final = 100
"""Length up to which a string is worth showing as one of several values."""
_WITHIN_S: Final = 5.0
_TYPES: Final[dict[str, MetadataType]] = {
    "string": "string",
    "bool": "boolean",
    "date": "date",
    "int": "number",
    "long": "number",
    "double": "number",
}
"""Types of metadata by those of BSON."""
_ORDERED: Final = frozenset({"number", "date"})


async def find_metadata_keys(database: Database, kb: KnowledgeBase) -> MetadataKeyList:
    """Look at the documents with a tag of the KB, at most `MAX_DOCUMENTS`.

    Raises:
        TransientError: It takes MongoDB too long.
    """
    query: Row = {"organization_id": kb.organization_id, "tag_ids": {"$in": list(kb.tag_ids)}, "alive": True}
    with pymongo.timeout(_WITHIN_S):
        total = await database[documents.NAME].count_documents(query, limit=MAX_DOCUMENTS + 1)
        rows = await database[documents.NAME].aggregate(
            [{"$match": query}, {"$limit": MAX_DOCUMENTS}, *_stages()], allowDiskUse=True
        )
        found = await rows.to_list()
    comparable = set(kb.filterable_metadata) - set(kb.filters_building)
    return MetadataKeyList(
        keys=[_key_view(row, filterable=row["_id"] in comparable) for row in found],
        document_count=min(total, MAX_DOCUMENTS),
        is_exact=total <= MAX_DOCUMENTS,
    )


def _stages() -> list[Row]:
    """Return the stages that yield one row for each key."""
    bson_type = {"$type": "$pair.v"}
    metadata_type = {
        "$switch": {
            "branches": [{"case": {"$eq": [bson_type, name]}, "then": shown} for name, shown in _TYPES.items()],
            "default": None,
        }
    }
    is_long = {"$and": [{"$eq": [bson_type, "string"]}, {"$gt": [{"$strLenCP": "$pair.v"}, _MAX_VALUE_CHARACTERS]}]}
    shown_value = {"$cond": [is_long, None, "$pair.v"]}
    of_value = {"key": "$pair.k", "type": metadata_type, "value": shown_value}
    values = {"value": "$_id.value", "document_count": "$documents"}
    return [
        {"$project": {"_id": 0, "pair": {"$objectToArray": "$metadata"}}},
        {"$unwind": "$pair"},
        {"$group": {"_id": of_value, "documents": {"$sum": 1}}},
        {
            "$group": {
                "_id": {"key": "$_id.key", "type": "$_id.type"},
                "documents": {"$sum": "$documents"},
                "least": {"$min": "$_id.value"},
                "greatest": {"$max": "$_id.value"},
                "values": {
                    "$topN": {"n": TOP_VALUES + 1, "sortBy": {"documents": -1, "_id.value": 1}, "output": values}
                },
            }
        },
        {"$sort": {"documents": -1, "_id.type": 1}},
        {
            "$group": {
                "_id": "$_id.key",
                "documents": {"$sum": "$documents"},
                "types": {
                    "$push": {
                        "type": "$_id.type",
                        "document_count": "$documents",
                        "least": "$least",
                        "greatest": "$greatest",
                        "values": "$values",
                    }
                },
            }
        },
        {"$sort": {"documents": -1, "_id": 1}},
        {"$limit": MAX_KEYS},
    ]


def _key_view(row: Row, *, filterable: bool) -> MetadataKeyView:
    types = [_type_view(each) for each in row["types"] if each["type"] is not None]
    return MetadataKeyView(key=row["_id"], document_count=row["documents"], filterable=filterable, types=types)


def _type_view(found: Row) -> MetadataTypeView:
    is_ordered = found["type"] in _ORDERED
    # The one without a value stands for all long strings.
    shown = [each for each in found["values"] if each["value"] is not None][:TOP_VALUES]
    return MetadataTypeView(
        type=found["type"],
        document_count=found["document_count"],
        least=found["least"] if is_ordered else None,
        greatest=found["greatest"] if is_ordered else None,
        top_values=[MetadataTopValue(**each) for each in shown],
    )
