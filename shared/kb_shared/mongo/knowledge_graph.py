"""`graph_nodes` and `graph_edges`: a directed graph for each organization. An edge exists only between two nodes.

The insertion of an edge writes both of its nodes (`fence`), and the deletion of a node deletes its row and its edges,
each in one transaction. So one of two such transactions sees what the other has done.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.errors import OperationFailure

from kb_contracts.knowledge.graph import MAX_NODES, GraphEdge, GraphNode
from kb_shared.errors import NotFound, RequestError
from kb_shared.mongo.database import Database, MongoSession, Row, in_one_batch, in_transaction, upsert_all
from kb_shared.mongo.put_outcome import PutOutcome
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.stored_properties import to_comparable, to_stored
from kb_shared.mongo.stored_time import now

NAME = "graph_nodes"
EDGES = "graph_edges"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("node_id", ASCENDING)])]
EDGE_INDEXES = [
    IndexModel(
        [
            ("organization_id", ASCENDING),
            ("source_id", ASCENDING),
            ("edge_type", ASCENDING),
            ("target_id", ASCENDING),
        ],
        unique=True,
    ),
    IndexModel([("organization_id", ASCENDING), ("target_id", ASCENDING)]),
]

_OUT_OF_MEMORY: Final = frozenset({146, 40099})
"""Error codes of MongoDB: `$graphLookup` has used up its 100 MB."""
MAX_EDGES_OF_TRAVERSAL: Final = 1_000
_EDGES_IN_TRANSACTION: Final = 500


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Identifies a node."""

    organization_id: str
    node_id: str


@dataclass(frozen=True, slots=True)
class EdgeKey:
    """Identifies an edge."""

    organization_id: str
    edge_id: str


@dataclass(frozen=True, slots=True)
class NodeRecord:
    organization_id: str
    node_id: str
    node_type: str
    label: str | None
    properties: Row
    """Properties as they are stored, with dates as dates."""
    created_at: datetime
    updated_at: datetime
    updated_by: str


@dataclass(frozen=True, slots=True)
class EdgeRecord:
    organization_id: str
    edge_id: str
    source_id: str
    edge_type: str
    target_id: str
    properties: Row
    """Properties as they are stored, with dates as dates."""
    created_at: datetime
    updated_at: datetime
    updated_by: str


@dataclass(frozen=True, slots=True)
class GraphNeighbourhood:
    """Part of a graph that is reached from a node along the direction of edges."""

    nodes: list[NodeRecord]
    """Nodes by their distance, the first one included."""
    edges: list[tuple[EdgeRecord, int]]
    """Edges with the number of edges from the first node to their target, by this number, type and target."""
    truncated: bool
    """True if more is within the depth than a traversal returns."""


_NODES: Final = RowMapper(NodeRecord)
_EDGES: Final = RowMapper(EdgeRecord)


def edge_id_of(edge: GraphEdge) -> str:
    """Return the id of an edge, which is made of its source, type and target."""
    return hashlib.sha256(" ".join(edge.key).encode()).hexdigest()[:24]


async def put_nodes(database: Database, organization_id: str, nodes: Sequence[GraphNode], *, by: str) -> PutOutcome:
    """Create nodes, or replace their types, labels and properties; equal ones are not written."""
    outcome = await compare_nodes(database, organization_id, nodes)
    at = now()
    upserts = [
        UpdateOne(
            _node_key(NodeKey(organization_id, node.node_id)),
            {
                "$set": {
                    "node_type": node.node_type,
                    "label": node.label,
                    "properties": to_stored(node.properties),
                    "updated_at": at,
                    "updated_by": by,
                },
                "$setOnInsert": {"node_id": node.node_id, "created_at": at, "fence": 0},
            },
            upsert=True,
        )
        for node in nodes
        if node.node_id in outcome.written
    ]
    if upserts:
        await upsert_all(database[NAME], upserts)
    return outcome


async def compare_nodes(database: Database, organization_id: str, nodes: Sequence[GraphNode]) -> PutOutcome:
    """Return what `put_nodes` would do now."""
    stored = await find_nodes(database, organization_id, node_ids=[node.node_id for node in nodes])
    return PutOutcome.compare(
        {node.node_id: (node.node_type, node.label, to_comparable(to_stored(node.properties))) for node in nodes},
        {record.node_id: (record.node_type, record.label, to_comparable(record.properties)) for record in stored},
    )


async def get_node(database: Database, key: NodeKey) -> NodeRecord:
    """Return a node. Raises NotFound."""
    row = await database[NAME].find_one(_node_key(key))
    if row is None:
        raise NotFound("node")
    return _NODES.read(row)


async def find_nodes(
    database: Database, organization_id: str, *, node_ids: Collection[str], session: MongoSession | None = None
) -> list[NodeRecord]:
    """Return those of the nodes that exist, in no order."""
    ids = [_node_row_id(NodeKey(organization_id, node_id)) for node_id in node_ids]
    query = {"_id": {"$in": ids}, "organization_id": organization_id}
    rows = database[NAME].find(query, batch_size=in_one_batch(len(ids)), session=session)
    return [_NODES.read(row) async for row in rows]


async def find_page_of_nodes(
    database: Database, organization_id: str, *, node_type: str | None = None, after: str | None, limit: int
) -> tuple[list[NodeRecord], int]:
    """Return a page of nodes in the order of their ids, and their total number.

    Args:
        database: where they are stored.
        organization_id: whose they are.
        node_type: only nodes of this type.
        after: id of the node before the page.
        limit: greatest number of nodes of the page.
    """
    query: Row = {"organization_id": organization_id}
    if node_type is not None:
        query["node_type"] = node_type
    page = query if after is None else {**query, "node_id": {"$gt": after}}
    rows = database[NAME].find(page).sort("node_id", ASCENDING).limit(limit)
    return [_NODES.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count_nodes(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def delete_node(database: Database, session: MongoSession, key: NodeKey) -> None:
    """Delete a node with the edges from it and to it. Raises NotFound."""
    if not (await database[NAME].delete_one(_node_key(key), session=session)).deleted_count:
        raise NotFound("node")
    for field in ("source_id", "target_id"):
        query = {"organization_id": key.organization_id, field: key.node_id}
        await database[EDGES].delete_many(query, session=session)


async def put_edges(database: Database, organization_id: str, edges: Sequence[GraphEdge], *, by: str) -> PutOutcome:
    """Create edges, or replace their properties; equal ones are not written, nor are those that lack a node.

    Args:
        database: where they are stored.
        organization_id: whose they are.
        edges: with different sources, types or targets.
        by: id of the key that writes them.
    """
    outcome = PutOutcome()
    for start in range(0, len(edges), _EDGES_IN_TRANSACTION):
        batch = edges[start : start + _EDGES_IN_TRANSACTION]

        async def put(session: MongoSession, batch: Sequence[GraphEdge] = batch) -> PutOutcome:
            return await put_edges_in(database, session, organization_id, edges=batch, by=by)

        outcome += await in_transaction(database, put)
    return outcome


async def compare_edges(
    database: Database, organization_id: str, edges: Sequence[GraphEdge], *, new_nodes: Collection[str] = ()
) -> PutOutcome:
    """Return what `put_edges` would do if the nodes of `new_nodes` existed, too."""
    wanted = {edge_id_of(edge): edge for edge in edges}
    compared = _compare(wanted, await _find_edges(database, organization_id, edge_ids=wanted))
    node_ids = _nodes_of(wanted[each] for each in compared.written)
    existing = {node.node_id for node in await find_nodes(database, organization_id, node_ids=node_ids)}
    return _without_lacking(compared, wanted, existing | set(new_nodes))


async def put_edges_in(
    database: Database, session: MongoSession, organization_id: str, *, edges: Sequence[GraphEdge], by: str
) -> PutOutcome:
    """Do what `put_edges` does for a few edges, in the caller's transaction."""
    wanted = {edge_id_of(edge): edge for edge in edges}
    compared = _compare(wanted, await _find_edges(database, organization_id, edge_ids=wanted, session=session))
    node_ids = _nodes_of(wanted[each] for each in compared.written)
    existing = await find_nodes(database, organization_id, node_ids=node_ids, session=session)
    outcome = _without_lacking(compared, wanted, {node.node_id for node in existing})
    if outcome.written:
        # A transaction that deletes one of them meanwhile conflicts with this one.
        await _fence(database, session, organization_id, node_ids=_nodes_of(wanted[each] for each in outcome.written))
        upserts = [_upsert(EdgeKey(organization_id, edge_id), wanted[edge_id], by=by) for edge_id in outcome.written]
        await database[EDGES].bulk_write(upserts, ordered=False, session=session)
    return outcome


async def _fence(database: Database, session: MongoSession, organization_id: str, *, node_ids: Collection[str]) -> None:
    ids = [_node_row_id(NodeKey(organization_id, node_id)) for node_id in node_ids]
    query = {"_id": {"$in": ids}, "organization_id": organization_id}
    await database[NAME].update_many(query, {"$inc": {"fence": 1}}, session=session)


def _compare(wanted: Mapping[str, GraphEdge], stored: Iterable[EdgeRecord]) -> PutOutcome:
    return PutOutcome.compare(
        {edge_id: to_comparable(to_stored(edge.properties)) for edge_id, edge in wanted.items()},
        {record.edge_id: to_comparable(record.properties) for record in stored},
    )


def _nodes_of(edges: Iterable[GraphEdge]) -> set[str]:
    return {node_id for edge in edges for node_id in (edge.source_id, edge.target_id)}


def _without_lacking(compared: PutOutcome, wanted: Mapping[str, GraphEdge], existing: Collection[str]) -> PutOutcome:
    """Take the edges that lack a node out of what is to be written."""
    missing = {
        edge_id: lacking
        for edge_id in compared.written
        if (lacking := frozenset(_nodes_of([wanted[edge_id]])) - frozenset(existing))
    }
    return replace(
        compared, created=compared.created - missing.keys(), changed=compared.changed - missing.keys(), missing=missing
    )


def _upsert(key: EdgeKey, edge: GraphEdge, *, by: str) -> UpdateOne:
    at = now()
    identity = {
        "edge_id": key.edge_id,
        "source_id": edge.source_id,
        "edge_type": edge.edge_type,
        "target_id": edge.target_id,
    }
    return UpdateOne(
        _edge_key(key),
        {
            "$set": {"properties": to_stored(edge.properties), "updated_at": at, "updated_by": by},
            "$setOnInsert": {**identity, "created_at": at},
        },
        upsert=True,
    )


async def find_edge(database: Database, key: EdgeKey, *, session: MongoSession | None = None) -> EdgeRecord | None:
    row = await database[EDGES].find_one(_edge_key(key), session=session)
    return _EDGES.read(row) if row else None


async def get_edge(database: Database, key: EdgeKey) -> EdgeRecord:
    """Return an edge. Raises NotFound."""
    if (found := await find_edge(database, key)) is None:
        raise NotFound("edge")
    return found


async def _find_edges(
    database: Database, organization_id: str, *, edge_ids: Collection[str], session: MongoSession | None = None
) -> list[EdgeRecord]:
    ids = [_edge_row_id(EdgeKey(organization_id, edge_id)) for edge_id in edge_ids]
    query = {"_id": {"$in": ids}, "organization_id": organization_id}
    rows = database[EDGES].find(query, batch_size=in_one_batch(len(ids)), session=session)
    return [_EDGES.read(row) async for row in rows]


async def find_page_of_edges(
    database: Database,
    organization_id: str,
    *,
    source_id: str | None = None,
    target_id: str | None = None,
    edge_type: str | None = None,
    after: str | None,
    limit: int,
) -> tuple[list[EdgeRecord], int]:
    """Return a page of edges in the order of their ids, and their total number.

    Args:
        database: where they are stored.
        organization_id: whose they are.
        source_id: only edges from this node.
        target_id: only edges to this node.
        edge_type: only edges of this type.
        after: id of the edge before the page.
        limit: greatest number of edges of the page.
    """
    wanted = {"source_id": source_id, "target_id": target_id, "edge_type": edge_type}
    query: Row = {"organization_id": organization_id} | {name: value for name, value in wanted.items() if value}
    first = _edge_row_id(EdgeKey(organization_id, after or ""))
    rows = database[EDGES].find({**query, "_id": {"$gt": first}}).sort("_id", ASCENDING).limit(limit)
    return [_EDGES.read(row) async for row in rows], await database[EDGES].count_documents(query)


async def count_edges(database: Database, organization_id: str) -> int:
    return await database[EDGES].count_documents({"organization_id": organization_id})


async def delete_edge(database: Database, key: EdgeKey) -> None:
    """Delete an edge; its nodes stay. Raises NotFound."""
    if not (await database[EDGES].delete_one(_edge_key(key))).deleted_count:
        raise NotFound("edge")


async def find_neighbourhood(database: Database, key: NodeKey, *, depth: int) -> GraphNeighbourhood:
    """Return what is reached from a node, breadth first; nothing if the node does not exist.

    Args:
        database: where the graph is stored.
        key: the node to begin at.
        depth: greatest number of edges from it, 1 to 4.

    Raises:
        RequestError: 422 `graph-too-large`: the server has no memory for the edges within the depth.
    """
    try:
        rows = [row async for row in await database[NAME].aggregate(_traversal(key, depth=depth))]
    except OperationFailure as error:
        if error.code not in _OUT_OF_MEMORY:
            raise
        raise RequestError(
            422,
            "graph-too-large",
            f"The edges within {depth} steps of this node need more than 100 MB. Ask with a smaller `depth`, or keep "
            "long texts in entries instead of in properties of edges.",
        ) from error
    truncated = len(rows) > MAX_EDGES_OF_TRAVERSAL
    reached = {key.node_id: 0}
    edges: list[tuple[EdgeRecord, int]] = []
    for row in rows[:MAX_EDGES_OF_TRAVERSAL]:
        edge, hops = _EDGES.read(row), int(row["hops"]) + 1
        if edge.target_id not in reached and len(reached) == MAX_NODES:
            truncated = True
        elif edge.source_id in reached:
            reached.setdefault(edge.target_id, hops)
            edges.append((edge, hops))
    nodes = await find_nodes(database, key.organization_id, node_ids=reached)
    # A node may be deleted between the two reads.
    existing = {node.node_id for node in nodes}
    return GraphNeighbourhood(
        sorted(nodes, key=lambda node: (reached[node.node_id], node.node_id)),
        [(edge, hops) for edge, hops in edges if {edge.source_id, edge.target_id} <= existing],
        truncated,
    )


def _traversal(key: NodeKey, *, depth: int) -> list[Row]:
    return [
        {"$match": _node_key(key)},
        {
            "$graphLookup": {
                "from": EDGES,
                "startWith": "$node_id",
                "connectFromField": "target_id",
                "connectToField": "source_id",
                "as": "edge",
                "maxDepth": depth - 1,
                "depthField": "hops",
                "restrictSearchWithMatch": {"organization_id": key.organization_id},
            }
        },
        {"$unwind": "$edge"},
        {"$replaceWith": "$edge"},
        {"$sort": {"hops": ASCENDING, "edge_type": ASCENDING, "target_id": ASCENDING, "source_id": ASCENDING}},
        {"$limit": MAX_EDGES_OF_TRAVERSAL + 1},
    ]


def _node_row_id(key: NodeKey) -> str:
    return f"{key.organization_id}/{key.node_id}"


def _node_key(key: NodeKey) -> Row:
    return {"_id": _node_row_id(key), "organization_id": key.organization_id}


def _edge_row_id(key: EdgeKey) -> str:
    return f"{key.organization_id}/{key.edge_id}"


def _edge_key(key: EdgeKey) -> Row:
    return {"_id": _edge_row_id(key), "organization_id": key.organization_id}
