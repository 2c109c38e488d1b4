from typing import Annotated, ClassVar

from pydantic import Field

from kb_knowledge.settings import KnowledgeStoreSettings


class RunnerSettings(KnowledgeStoreSettings):
    uses_kafka: ClassVar[bool] = False

    source_runs_at_once: Annotated[int, Field(ge=1, le=64)] = 4
    """Number of sources that one runner reads at the same time."""
    source_run_max_s: Annotated[float, Field(gt=0)] = 3_600.0
    """Time limit of a run."""
    source_run_max_bytes: Annotated[int, Field(gt=0)] = 500_000_000
    """Limit of what a run reads."""
    source_max_items: Annotated[int, Field(ge=1, le=5_000)] = 1_000
    """Number of resources that a run reads of an MCP server. Of a web site, it reads 200 pages."""
    crawl_delay_s: Annotated[float, Field(ge=0, le=10)] = 0.5
    """Shortest pause between two requests to one server. robots.txt may ask for a longer one, up to 10 s."""
