"""What a dashboard shows and in which order, apart from how Grafana stores it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelQuery:
    expr: str
    """PromQL; `$__rate_interval`, `$__range` and `$kb_id` are Grafana's to replace."""
    legend: str
    zero_reason: str | None = None
    """Why the query gives zero or nothing even in a test that causes every fault; None if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    description: str
    """What the figure means, and what to do when it is high."""
    unit: str
    """One of Grafana's units, such as `s`, `short`, `percentunit`, `reqps`."""
    queries: Sequence[PanelQuery]
    alerts: Sequence[str] = ()
    """Alerts on this figure; the panel links to their runbooks."""
    threshold: float | None = None
    """Value from which the panel is red: that of an alert."""
    is_bad_below: bool = False
    """True if values below the threshold are the bad ones."""
    kind: Literal["graph", "number"] = "graph"
    """A graph over time, or the last value as a number."""
    width: int = 8
    """Columns of 24."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRow:
    """Panels below one heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    uid: str
    """Part of the address in Grafana, and name of the JSON file."""
    title: str
    question: str
    """Question that the dashboard answers."""
    rows: Sequence[PanelRow]
    by_knowledge_base: bool = False
    """True for a dashboard about the knowledge base that its reader chooses, `$kb_id`."""

    @property
    def panels(self) -> Sequence[Panel]:
        return [panel for row in self.rows for panel in row.panels]
