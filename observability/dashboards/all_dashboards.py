from typing import Final

from observability.dashboards.curated_knowledge import CURATED_KNOWLEDGE
from observability.dashboards.knowledge_base import KNOWLEDGE_BASE
from observability.dashboards.overview import OVERVIEW
from observability.dashboards.panel import Dashboard
from observability.dashboards.pipeline import PIPELINE
from observability.dashboards.provider_and_cache import PROVIDER_AND_CACHE
from observability.dashboards.reconciliation import RECONCILIATION
from observability.dashboards.search_and_runs import SEARCH_AND_RUNS
from observability.dashboards.spus_and_money import SPUS_AND_MONEY

DASHBOARDS: Final[tuple[Dashboard, ...]] = (
    OVERVIEW,
    PIPELINE,
    PROVIDER_AND_CACHE,
    SEARCH_AND_RUNS,
    SPUS_AND_MONEY,
    RECONCILIATION,
    KNOWLEDGE_BASE,
    CURATED_KNOWLEDGE,
)
"""In the order in which somebody on call reads them."""
