"""Counts and times that one run of the demo measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pymongo import AsyncMongoClient

from kb_shared.mongo import spu_ledger


@dataclass(slots=True)
class Figures:
    documents: int = 0
    knowledge_bases: list[dict[str, Any]] = field(default_factory=list)
    chunks: int = 0
    embeddings_generated: int = 0
    embeddings_from_cache: int = 0
    spus: int = 0
    stack_ready_s: float = 0.0
    bulk_s: float = 0.0
    searchable_ms: dict[str, float] = field(default_factory=dict)
    questions: list[dict[str, Any]] = field(default_factory=list)
    changes: dict[str, float] = field(default_factory=dict)
    total_s: float = 0.0


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and the number of measurements."""
    cuts = quantiles(seconds, n=20, method="inclusive")
    return {"events": len(seconds), "p50": round(cuts[9] * 1000, 1), "p95": round(cuts[18] * 1000, 1)}


async def counters(url: str) -> dict[str, float]:
    """Return the counters of a service, summed over their labels."""
    async with httpx.AsyncClient() as http:
        exposition = (await http.get(f"{url}/metrics")).raise_for_status().text
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


async def spus_charged(mongo_uri: str, database: str, *, organization_id: str) -> int:
    """Return the sum of the charges in the ledger."""
    async with AsyncMongoClient[dict[str, Any]](mongo_uri) as client:
        return await spu_ledger.sum_spus(client[database], organization_id)
