"""`circuits`: circuit breakers of organizations and models, shared by all replicas. A missing row means closed."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Final, TypeVar

from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError

from kb_shared.errors import TransientError
from kb_shared.mongo.circuit import Cause, Circuit
from kb_shared.mongo.database import MAX_ATTEMPTS, Database, Row
from kb_shared.mongo.rows import RowMapper

NAME = "circuits"
INDEXES = [
    IndexModel([("organization_id", ASCENDING)]),
    IndexModel([("at", ASCENDING)], expireAfterSeconds=24 * 3600),
    IndexModel([("cause", ASCENDING)], partialFilterExpression={"cause": {"$type": "string"}}),
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CircuitId:
    organization_id: str
    provider_fingerprint: str
    model: str

    @property
    def key(self) -> Row:
        return {
            "_id": f"{self.organization_id}/{self.provider_fingerprint}/{self.model}",
            "organization_id": self.organization_id,
        }


@dataclass(frozen=True, slots=True)
class OpenCircuit:
    model: str
    """Name of the model, with what its calls are for before it (`queries/`, `chat/`) unless that is documents."""
    cause: Cause
    until: datetime | None


async def read(database: Database, circuit_id: CircuitId) -> tuple[Circuit, datetime]:
    """Return the circuit and the server's time, without changing anything.

    Without a row, the time is the smallest one; the circuit is closed then and needs none.
    """
    row = await database[NAME].find_one(circuit_id.key, {**dict.fromkeys(_FIELDS, 1), "now": "$$NOW"})
    return (_ROWS.read(row), row["now"]) if row else (Circuit(), datetime.min.replace(tzinfo=UTC))


async def change(
    database: Database, circuit_id: CircuitId, decide: Callable[[Circuit, datetime], tuple[Circuit, T]]
) -> T:
    """Replace a circuit by the result of `decide` at the server's time; retry if another process changed it first."""
    for _ in range(MAX_ATTEMPTS):
        row = await _touch(database, circuit_id)
        before = _ROWS.read(row)
        after, outcome = decide(before, row["at"])
        if after == before:
            return outcome
        written = await database[NAME].update_one(
            {**circuit_id.key, "version": row["version"]}, {"$set": _to_row(after), "$inc": {"version": 1}}
        )
        if written.matched_count == 1:
            return outcome
    raise TransientError(f"gave up after {MAX_ATTEMPTS} conflicting writes of a circuit")


async def count_open(database: Database) -> dict[Cause, int]:
    """Count the open circuits of all organizations, by cause; a cause without open circuits is absent.

    A circuit that may be probed is no longer open, even if no call has probed it yet.
    """
    is_shut = {"$gt": [{"$max": ["$open_until", "$probe_until"]}, "$$NOW"]}
    stages: list[Row] = [
        {"$match": {"cause": {"$type": "string"}, "$expr": is_shut}},
        {"$group": {"_id": "$cause", "circuits": {"$sum": 1}}},
    ]
    rows = await database[NAME].aggregate(stages)
    return {Cause(row["_id"]): row["circuits"] async for row in rows}


async def find_open(database: Database, organization_id: str) -> list[OpenCircuit]:
    """Return the circuits of an organization that are open, by model."""
    rows = (
        database[NAME].find({"organization_id": organization_id, "cause": {"$type": "string"}}).sort("_id", ASCENDING)
    )
    return [OpenCircuit(row["_id"].split("/", 2)[2], Cause(row["cause"]), row.get("open_until")) async for row in rows]


async def reset(database: Database, organization_id: str) -> None:
    """Close all circuits of an organization, because one of its keys was replaced."""
    await database[NAME].delete_many({"organization_id": organization_id})


async def _touch(database: Database, circuit_id: CircuitId) -> Row:
    stages = [{"$set": {"at": "$$NOW", "version": {"$ifNull": ["$version", 0]}}}]

    async def touch() -> Row:
        row = await database[NAME].find_one_and_update(
            circuit_id.key, stages, upsert=True, return_document=ReturnDocument.AFTER
        )
        assert row is not None, "it is inserted if it is not there"
        return row

    try:
        return await touch()
    except DuplicateKeyError:
        # Two replicas inserted the row at the same time. Now it exists.
        return await touch()


_FIELDS = tuple(field.name for field in fields(Circuit))
_ROWS: Final = RowMapper(Circuit, convert={"cause": Cause})


def _to_row(circuit: Circuit) -> Row:
    return {name: getattr(circuit, name) for name in _FIELDS} | {"cause": circuit.cause and str(circuit.cause)}
