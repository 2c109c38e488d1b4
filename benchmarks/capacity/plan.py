"""Calculates what a number of chunks needs from unit costs, and which limits that breaks. Pure."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

QUANTIZATIONS: Final[Mapping[str, float]] = {"none": 1.0, "scalar": 1 / 3.75, "binary": 1 / 24}
"""Share of a vector that stays in memory. The whole vectors are on disk in any case."""
_GB: Final = 10**9
_DAY_S: Final = 86_400
_MONTH_H: Final = 730


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Costs of one chunk, one document and one search. Bytes are on disk, unless the name says otherwise."""

    dimensions: int
    chunks_per_document: float
    tokens_per_chunk: float
    chunk_bytes: float
    """Bytes in the collection of its KB."""
    chunk_index_bytes: float
    """Bytes of MongoDB's own indexes of that collection."""
    cache_bytes: float
    """Bytes in `embedding_cache`, with its indexes."""
    document_bytes: float
    """Bytes in all other collections together, with their indexes."""
    event_bytes: float
    """Bytes of the event with the text of a document."""
    indexer_cpu_ms: float
    """CPU per chunk."""
    mongod_cpu_ms: float
    """CPU per chunk, without the search node."""
    search_cpu_ms: float
    """CPU of the search service per hybrid search."""

    @classmethod
    def from_measurement(cls, figures: Mapping[str, Any]) -> "UnitCosts":
        """Read the JSON of `benchmarks.unit_costs`."""
        sizes = figures["bytes"]
        chunk, cache = sizes["kb_vectors"], sizes["embedding_cache"]
        others = [of for of in sizes.values() if of["per"] == "document"]
        return cls(
            dimensions=int(figures["options"]["dims"]),
            chunks_per_document=figures["chunks_per_document"],
            tokens_per_chunk=figures["tokens_per_chunk"],
            chunk_bytes=chunk["on_disk"],
            chunk_index_bytes=chunk["indexes_on_disk"],
            cache_bytes=cache["on_disk"] + cache["indexes_on_disk"],
            document_bytes=sum(of["on_disk"] + of["indexes_on_disk"] for of in others),
            event_bytes=figures["event_bytes_per_document"],
            indexer_cpu_ms=figures["cpu_ms_per_chunk"]["kb-indexer"],
            mongod_cpu_ms=figures["cpu_ms_per_chunk"]["mongod"],
            search_cpu_ms=figures["cpu_ms_per_search"]["hybrid"]["kb-search"],
        )


@dataclass(frozen=True, slots=True)
class CapacityLimits:
    """Limits of MongoDB Atlas, of the topics and of the embedding provider."""

    search_indexes_of_cluster: int = 2_500
    collections_and_indexes_of_cluster: int = 100_000
    documents_of_search_index: int = 2_000_000_000
    """Limit of one shard."""
    shards: int = 80
    search_nodes_of_shard: int = 32
    command_partitions: int = 24
    """Partitions of `kb-index-requests`: further indexers get none."""
    provider_tokens_per_minute: float = 10_000_000
    provider_requests_per_minute: float = 10_000
    dollars_per_million_tokens: float = 0.02
    hours_between_full_passes: float = 24


@dataclass(frozen=True, slots=True)
class CapacityDemand:
    """Describes a deployment. The defaults are assumptions."""

    chunks: float
    chunks_of_kb: float = 100_000
    searches_per_s: float = 50
    changed_per_day: float = 0.01
    """Share of the documents that get a new text on a day."""
    quantization: str = "none"
    members: int = 3
    shard_disk_gb: float = 2_000
    shard_memory_gb: float = 128
    search_node_memory_gb: float = 128
    hot_share: float = 0.05
    """Share of the chunks that MongoDB should keep in memory, because searches read their texts."""
    texts_per_request: int = 100
    load_days: float = 7
    """Days in which the first load should end."""
    full_pass_s_per_million_chunks: float = 28
    """CPU of mongod and the reconciler together, as `benchmarks.reconcile_cost --dims 1536` measures it."""


@dataclass(frozen=True, slots=True)
class BrokenLimit:
    limit: str
    needed: float
    allowed: float


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """Contains what a deployment needs. Bytes of all members together are named so."""

    documents: float
    knowledge_bases: int
    mongo_disk_gb_of_member_set: float
    """Disk of one copy of the data."""
    mongo_disk_gb_of_all: float
    mongo_memory_gb: float
    """Memory for the indexes and the hot chunks of one copy."""
    search_memory_gb: float
    """Memory for the vectors and graphs of one copy."""
    shards: int
    search_nodes: int
    indexers_for_load: int
    cores_of_search: float
    cores_of_mongod_for_load: float
    provider_tokens: float
    provider_days: float
    provider_dollars: float
    provider_dollars_per_month: float
    event_gb_of_load: float
    full_pass_hours: float
    broken: list[BrokenLimit] = field(default_factory=list)


def plan_capacity(demand: CapacityDemand, units: UnitCosts, limits: CapacityLimits) -> CapacityPlan:
    """Calculate. Pure."""
    documents = demand.chunks / units.chunks_per_document
    indexes_bytes = demand.chunks * units.chunk_index_bytes
    disk_bytes = demand.chunks * (units.chunk_bytes + units.cache_bytes) + indexes_bytes
    disk_gb = (disk_bytes + documents * units.document_bytes) / _GB
    memory_gb = (indexes_bytes + demand.hot_share * demand.chunks * units.chunk_bytes) / _GB
    search_memory_gb = demand.chunks * vector_memory_bytes(units.dimensions, demand.quantization) / _GB
    shards = max(
        1,
        math.ceil(disk_gb / demand.shard_disk_gb),
        # A half of mongod's memory is its cache.
        math.ceil(memory_gb / (demand.shard_memory_gb / 2)),
        math.ceil(search_memory_gb / (0.8 * demand.search_node_memory_gb)),
    )
    tokens = demand.chunks * units.tokens_per_chunk
    load_s = demand.load_days * _DAY_S
    requests = demand.chunks / demand.texts_per_request
    provider_minutes = max(tokens / limits.provider_tokens_per_minute, requests / limits.provider_requests_per_minute)
    changed_tokens = tokens * demand.changed_per_day * _MONTH_H / 24
    plan = CapacityPlan(
        documents=documents,
        knowledge_bases=math.ceil(demand.chunks / demand.chunks_of_kb),
        mongo_disk_gb_of_member_set=disk_gb,
        mongo_disk_gb_of_all=disk_gb * demand.members,
        mongo_memory_gb=memory_gb,
        search_memory_gb=search_memory_gb,
        shards=shards,
        search_nodes=2 * shards,
        indexers_for_load=math.ceil(demand.chunks * units.indexer_cpu_ms / 1_000 / load_s),
        cores_of_search=demand.searches_per_s * units.search_cpu_ms / 1_000,
        cores_of_mongod_for_load=demand.chunks * units.mongod_cpu_ms / 1_000 / load_s,
        provider_tokens=tokens,
        provider_days=provider_minutes / 1_440,
        provider_dollars=tokens / 1e6 * limits.dollars_per_million_tokens,
        provider_dollars_per_month=changed_tokens / 1e6 * limits.dollars_per_million_tokens,
        event_gb_of_load=documents * units.event_bytes / _GB,
        full_pass_hours=demand.chunks / 1e6 * demand.full_pass_s_per_million_chunks / 3_600,
    )
    plan.broken.extend(_broken_limits(plan, demand, limits))
    return plan


def vector_memory_bytes(dimensions: int, quantization: str) -> float:
    """Return the memory of a vector in an HNSW index: the vector itself, and 32 neighbours of 4 bytes."""
    return dimensions * 4 * QUANTIZATIONS[quantization] + 128


def _broken_limits(plan: CapacityPlan, demand: CapacityDemand, limits: CapacityLimits) -> Iterator[BrokenLimit]:
    collections = plan.knowledge_bases * 4
    needs = [
        ("search indexes of a cluster, two per KB", plan.knowledge_bases * 2, limits.search_indexes_of_cluster),
        ("collections and indexes of a cluster, four per KB", collections, limits.collections_and_indexes_of_cluster),
        ("chunks of one KB on one shard", demand.chunks_of_kb, limits.documents_of_search_index),
        ("shards of a cluster", plan.shards, limits.shards),
        ("indexers, one per partition of kb-index-requests", plan.indexers_for_load, limits.command_partitions),
        ("hours of a full pass of the reconciler", plan.full_pass_hours, limits.hours_between_full_passes),
        ("days of the provider's quota for the first load", plan.provider_days, demand.load_days),
    ]
    return (BrokenLimit(name, needed, allowed) for name, needed, allowed in needs if needed > allowed)


@dataclass(frozen=True, slots=True)
class BreakingPoint:
    limit: str
    chunks: float
    """Number of chunks at which the limit is reached."""


def find_breaking_points(demand: CapacityDemand, units: UnitCosts, limits: CapacityLimits) -> list[BreakingPoint]:
    """Return the chunks at which each limit is reached in one cluster, in their order. `demand.chunks` is not used."""
    load_s = demand.load_days * _DAY_S
    tokens_of_load = limits.provider_tokens_per_minute * load_s / 60
    bytes_on_disk = (
        units.chunk_bytes
        + units.chunk_index_bytes
        + units.cache_bytes
        + units.document_bytes / units.chunks_per_document
    )
    bytes_in_memory = units.chunk_index_bytes + demand.hot_share * units.chunk_bytes
    points = {
        f"vectors in the memory of one search node, quantization {name}": 0.8
        * demand.search_node_memory_gb
        * _GB
        / vector_memory_bytes(units.dimensions, name)
        for name in QUANTIZATIONS
    } | {
        "disk of one shard": demand.shard_disk_gb * _GB / bytes_on_disk,
        "memory of one shard for indexes and hot chunks": demand.shard_memory_gb / 2 * _GB / bytes_in_memory,
        "search indexes of a cluster": limits.search_indexes_of_cluster / 2 * demand.chunks_of_kb,
        "collections and indexes of a cluster": limits.collections_and_indexes_of_cluster / 4 * demand.chunks_of_kb,
        "quota of the provider during the first load": tokens_of_load / units.tokens_per_chunk,
        "indexers during the first load": limits.command_partitions * load_s / (units.indexer_cpu_ms / 1_000),
        "full pass of the reconciler": limits.hours_between_full_passes
        * 3_600
        / demand.full_pass_s_per_million_chunks
        * 1e6,
    }
    return sorted((BreakingPoint(*each) for each in points.items()), key=lambda point: point.chunks)
