from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.capacity.__main__ import main
from benchmarks.capacity.plan import (
    CapacityDemand,
    CapacityLimits,
    UnitCosts,
    find_breaking_points,
    plan_capacity,
    vector_memory_bytes,
)
from benchmarks.capacity.tables import as_table

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "capacity.md"
UNITS = UnitCosts(
    dimensions=1_000,
    chunks_per_document=10,
    tokens_per_chunk=500,
    chunk_bytes=5_000,
    chunk_index_bytes=100,
    cache_bytes=4_000,
    document_bytes=9_000,
    event_bytes=20_000,
    indexer_cpu_ms=2,
    mongod_cpu_ms=1,
    search_cpu_ms=4,
)
LIMITS = CapacityLimits()
SMALL = CapacityDemand(chunks=1e6, searches_per_s=100)


def test_a_plan_is_the_product_of_numbers_and_unit_costs() -> None:
    plan = plan_capacity(SMALL, UNITS, LIMITS)

    assert plan.documents == 100_000
    assert plan.knowledge_bases == 10
    # A million chunks of 9,100 bytes, and 100,000 documents of 9,000.
    assert plan.mongo_disk_gb_of_member_set == pytest.approx(9.1 + 0.9)
    assert plan.mongo_disk_gb_of_all == pytest.approx(30)
    assert plan.mongo_memory_gb == pytest.approx(0.1 + 0.05 * 5)
    assert plan.search_memory_gb == pytest.approx(4.128)
    assert (plan.shards, plan.search_nodes) == (1, 2)
    assert plan.cores_of_search == pytest.approx(0.4)
    assert plan.provider_tokens == 5e8
    assert plan.provider_dollars == pytest.approx(10)
    assert plan.provider_days == pytest.approx(50 / 1_440)
    assert plan.event_gb_of_load == pytest.approx(2)
    assert plan.full_pass_hours == pytest.approx(28 / 3_600)
    assert plan.broken == []


def test_small_requests_are_limited_by_their_number_and_not_by_their_tokens() -> None:
    plan = plan_capacity(replace(SMALL, texts_per_request=1), UNITS, LIMITS)

    assert plan.provider_days == pytest.approx(100 / 1_440)


@pytest.mark.parametrize(
    ("demand", "limit"),
    [
        (replace(SMALL, chunks_of_kb=500), "search indexes of a cluster"),
        (replace(SMALL, chunks_of_kb=30), "collections and indexes of a cluster"),
        (replace(SMALL, chunks=1e11, chunks_of_kb=3e9), "chunks of one KB on one shard"),
        (replace(SMALL, chunks=1e11, chunks_of_kb=1e9), "shards of a cluster"),
        (replace(SMALL, chunks=1e10, chunks_of_kb=1e9), "indexers"),
        (replace(SMALL, full_pass_s_per_million_chunks=90_000), "hours of a full pass"),
        (replace(SMALL, chunks=1e10, chunks_of_kb=1e9), "days of the provider's quota"),
    ],
)
def test_each_limit_that_is_exceeded_is_named(demand: CapacityDemand, limit: str) -> None:
    assert any(each.limit.startswith(limit) for each in plan_capacity(demand, UNITS, LIMITS).broken)


def test_the_number_of_shards_is_that_of_the_scarcest_resource() -> None:
    demand = CapacityDemand(chunks=1e9, shard_disk_gb=1e6, shard_memory_gb=1e6, search_node_memory_gb=516)

    # 4,128 GB of vectors, of which a node with 516 GB takes four fifths.
    assert plan_capacity(demand, UNITS, LIMITS).shards == 10
    assert plan_capacity(replace(demand, search_node_memory_gb=1e6), UNITS, LIMITS).shards == 1
    assert plan_capacity(replace(demand, search_node_memory_gb=1e6, shard_disk_gb=5_000), UNITS, LIMITS).shards == 2


def test_quantized_vectors_need_less_memory_but_the_same_graph() -> None:
    assert vector_memory_bytes(1_536, "none") == 6_144 + 128
    assert vector_memory_bytes(1_536, "scalar") == pytest.approx(6_144 / 3.75 + 128)
    assert vector_memory_bytes(1_536, "binary") == 256 + 128


def test_a_column_names_the_quantization_only_where_it_matters() -> None:
    demand = CapacityDemand(chunks=1e11, chunks_of_kb=1e9)
    plans = {name: plan_capacity(replace(demand, quantization=name), UNITS, LIMITS) for name in ("none", "binary")}

    cells = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in as_table({"C": plans}).splitlines()}

    assert cells["knowledge bases"] == "100"
    assert cells["memory of search nodes, one copy"] == "413 TB (none), 29.5 TB (binary)"
    assert "shards of a cluster: 4,032 (none), 547 (binary) of 80" in cells["limits that are broken"]


def test_the_tables_of_the_page_are_those_that_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["capacity"])
    main()

    page = PAGE.read_text()
    for table in capsys.readouterr().out.split("\n\n"):
        assert table.strip() in page


def test_a_limit_breaks_just_above_its_breaking_point() -> None:
    demand = CapacityDemand(chunks=0, chunks_of_kb=10)
    points = {point.limit: point.chunks for point in find_breaking_points(demand, UNITS, LIMITS)}
    names = {
        "search indexes of a cluster": "search indexes of a cluster, two per KB",
        "indexers during the first load": "indexers, one per partition of kb-index-requests",
        "full pass of the reconciler": "hours of a full pass of the reconciler",
        "quota of the provider during the first load": "days of the provider's quota for the first load",
    }

    assert list(points.values()) == sorted(points.values())
    for point, limit in names.items():
        below, above = (
            plan_capacity(replace(demand, chunks=points[point] * share), UNITS, LIMITS) for share in (0.99, 1.01)
        )
        assert limit not in [each.limit for each in below.broken]
        assert limit in [each.limit for each in above.broken]
    on_disk = points["disk of one shard"]
    assert plan_capacity(replace(demand, chunks=on_disk), UNITS, LIMITS).mongo_disk_gb_of_member_set == pytest.approx(
        2_000
    )
