import asyncio
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import httpx
import pytest

from kb_local.ports import NO_TLS
from observability.dashboards.all_dashboards import DASHBOARDS
from observability.dashboards.panel import PanelQuery
from tests.chaos.workload import Upstream
from tests.dashboards.conftest import WatchedSystem
from tests.dashboards.curation import Curation
from tests.dashboards.everyday import Everyday
from tests.dashboards.planted_faults import PlantedFaults
from tests.dashboards.prometheus_answers import PrometheusAnswers
from tests.deployment.dashboard_checks import replace_variables
from tests.noisy_neighbour.neighbourhood import create_organization
from tests.waiting import until

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(1800)]

TAG: Final = "everyday"
STATES_WITHIN_S: Final = 150.0
"""Some gauges are counted once a minute."""
SHORT_RANGES: Final = {"$__rate_interval": "15s", "$__range": "10m"}


@dataclass(frozen=True, slots=True)
class ShownQuery:
    """A query with the place at which it is shown."""

    place: str
    query: PanelQuery


SHOWN: Final = [
    ShownQuery(f"{dashboard.title} / {panel.title} / {query.legend}", query)
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    for query in panel.queries
]


@pytest.fixture
async def answers(watched: WatchedSystem) -> AsyncIterator[PrometheusAnswers]:
    url = watched.prometheus.url
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS, timeout=60) as http:
        yield PrometheusAnswers(http)


@pytest.fixture
async def everyday(watched: WatchedSystem) -> AsyncIterator[Everyday]:
    """Work that goes on all the time."""
    system = watched.system
    await system.create_tags(TAG)
    kb_id = await system.create_knowledge_base(TAG)
    await system.until_active(kb_id)
    other = await create_organization(system.stack, "other")
    other_kb_id = await other.create_knowledge_base("other")
    everyday = Everyday(system, Upstream(system.organization_id), kb_id, TAG, other, other_kb_id)
    working = [asyncio.create_task(each.go_on()) for each in (everyday, Curation(system))]
    yield everyday
    assert not any(each.done() for each in working), "the work has ended"
    for each in working:
        each.cancel()
    await asyncio.gather(*working, return_exceptions=True)


async def test_every_panel_shows_values_other_than_zero_when_everything_happens(
    watched: WatchedSystem, everyday: Everyday, answers: PrometheusAnswers, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.time()
    await PlantedFaults(watched, answers, everyday.upstream, TAG).plant_all()
    missing = {shown.place: shown.query for shown in SHOWN if shown.query.zero_reason is None}

    async def all_have_values() -> bool:
        for place, query in list(missing.items()):
            replaced = replace_variables(query.expr, {**SHORT_RANGES, "$kb_id": everyday.kb_id})
            if await answers.has_been_other_than_zero(replaced, since=began):
                del missing[place]
        return not missing

    try:
        await until(all_have_values, every_s=5, within_s=STATES_WITHIN_S, progress=lambda: len(missing))
    except TimeoutError:
        pytest.fail("these have shown nothing but zero:\n" + "\n".join(missing))
    with capsys.disabled():
        for shown in SHOWN:
            if shown.query.zero_reason is not None:
                sys.stdout.write(f"\nmay be zero: {shown.place}: {shown.query.zero_reason}")
