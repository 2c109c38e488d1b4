"""What the services of a running system export on `/metrics`."""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from kb_local.ports import NO_TLS
from kb_local.stack import Stack


@dataclass(frozen=True, slots=True)
class Series:
    """One label set of a metric of a service. The buckets of a histogram are one series here."""

    service: str
    metric: str
    """Name as it is documented."""
    labels: frozenset[tuple[str, str]]

    @property
    def label_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.labels)


@dataclass(frozen=True, slots=True)
class Exported:
    """The answers of all services at one time."""

    types: dict[str, set[str]]
    """Types of each metric, also of one that has no series yet."""
    series: frozenset[Series]

    def of_knowledge_bases(self, kb_ids: list[str]) -> set[Series]:
        """The series that contain one of these KBs in any label."""
        return {each for each in self.series for _, value in each.labels if any(kb_id in value for kb_id in kb_ids)}


async def scrape(stack: Stack) -> Exported:
    """Read `/metrics` of all services that run."""
    types: dict[str, set[str]] = {}
    series: set[Series] = set()
    async with httpx.AsyncClient(trust_env=False, verify=NO_TLS) as http:
        for name, service in stack.services.items():
            if not service.running:
                continue
            answer = (await http.get(f"{service.url}/metrics")).raise_for_status()
            for metric, kind, labels in _parse(answer.text):
                types.setdefault(metric, set()).add(kind)
                if labels is not None:
                    series.add(Series(name, metric, labels))
    return Exported(types, frozenset(series))


def _parse(text: str) -> Iterator[tuple[str, str, frozenset[tuple[str, str]] | None]]:
    for family in text_string_to_metric_families(text):
        if not family.name.startswith("kb_"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, family.type, None
        for sample in family.samples:
            yield name, family.type, frozenset((key, value) for key, value in sample.labels.items() if key != "le")
