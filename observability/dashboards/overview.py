from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import quantile, recent_increase, share, total_rate

SERVICES: Final = 'job=~"kb-api|kb-indexer|kb-search|kb-knowledge|kb-knowledge-runner|kb-console|kb-reconciler"'
OF_API_AND_MODELS: Final = 'route!~".+/search|/healthz|/readyz|/metrics"'
SEARCHES: Final = 'job="kb-search",route=~".+/search"'
WINDOWS: Final = ("5m", "1h", "6h", "3d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A service level objective (docs/reference/slos.md)."""

    name: str
    """In titles."""
    rule: str
    """What its recording rules begin with."""
    budget: float
    """Share of events that may be bad."""
    bad_share_of_month: str
    """Share of events that were bad in 30 days."""
    meaning: str
    alert: str


def _slow_share(histogram: str, *, where: str, within: str) -> str:
    good = f'sum(increase({histogram}_bucket{{{where},le="{within}"}}[30d]))'
    return f"1 - {good} / (sum(increase({histogram}_count{{{where}}}[30d])) > 0)"


OBJECTIVES: Final = (
    Objective(
        name="time to searchable",
        rule="kb:time_to_searchable:error_ratio",
        budget=0.01,
        bad_share_of_month=_slow_share("kb_time_to_searchable_seconds", where='path=~"ocr|tag"', within="60.0"),
        meaning="99 % of new texts and tags are found by searches within 60 s of their event.",
        alert="KbTimeToSearchableBudgetBurn",
    ),
    Objective(
        name="freshness",
        rule="kb:freshness:error_ratio",
        budget=0.001,
        bad_share_of_month="avg_over_time(kb:freshness:stale[30d])",
        meaning="In 99.9 % of all minutes, no change of a document has waited longer than 15 minutes.",
        alert="KbFreshnessBudgetBurn",
    ),
    Objective(
        name="search availability",
        rule="kb:search:error_ratio",
        budget=0.001,
        bad_share_of_month=(
            f'(sum(increase(kb_http_requests_total{{{SEARCHES},status=~"5.."}}[30d])) or vector(0))'
            f" / (sum(increase(kb_http_requests_total{{{SEARCHES}}}[30d])) > 0)"
        ),
        meaning="99.9 % of searches are not answered with 5xx.",
        alert="KbSearchAvailabilityBudgetBurn",
    ),
    Objective(
        name="search latency",
        rule="kb:search_latency:error_ratio",
        budget=0.05,
        bad_share_of_month=_slow_share("kb_search_seconds", where='stage="total"', within="0.5"),
        meaning="95 % of searches are answered within 500 ms.",
        alert="KbSearchLatencyBudgetBurn",
    ),
)


def _budget_left(objective: Objective) -> Panel:
    return Panel(
        title=f"Budget left: {objective.name}",
        description=(
            f"{objective.meaning} Share of the error budget of the last 30 days that is left; below 0 % the objective"
            " is missed. Falling: see the burn rates below. Used up: stop changes that are not repairs."
        ),
        unit="percentunit",
        queries=[PanelQuery(expr=f"1 - ({objective.bad_share_of_month}) / {objective.budget:g}", legend="left")],
        alerts=[objective.alert],
        threshold=0,
        is_bad_below=True,
        kind="number",
        width=5,
    )


def _burn_rate(objective: Objective) -> Panel:
    return Panel(
        title=f"Burn rate: {objective.name}",
        description=(
            f"{objective.meaning} At a burn rate of 1 the budget lasts exactly 30 days. 14.4 over one hour or 6 over"
            " six hours pages somebody, 1 over three days opens a ticket. High: follow the runbook."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=f"{objective.rule}{window} / {objective.budget:g}", legend=window) for window in WINDOWS
        ],
        alerts=[objective.alert],
        threshold=1,
        width=6,
    )


ALERTS_THAT_FIRE: Final = Panel(
    title="Alerts that fire",
    description=(
        "Alerts of this system that fire now, also those that Alertmanager mutes as consequences of others. Above 0:"
        " Alertmanager shows the cause, and its annotation names the runbook."
    ),
    unit="short",
    queries=[PanelQuery(expr='count(ALERTS{alertname=~"Kb.+",alertstate="firing"}) or vector(0)', legend="alerts")],
    threshold=1,
    kind="number",
    width=4,
)

WHAT_USERS_NOTICE: Final[Sequence[Panel]] = (
    Panel(
        title="Searches by outcome",
        description=(
            "Searches a second. degraded: answered by the text index alone, because the embedding provider gave no"
            " vector. unavailable: answered with 503. failed: ended by an unexpected error, see http.failed in the"
            " logs."
        ),
        unit="reqps",
        queries=[PanelQuery(expr=total_rate("kb_search_requests_total", by="outcome"), legend="{{outcome}}")],
        alerts=["KbSearchAvailabilityBudgetBurn"],
    ),
    Panel(
        title="Duration of a search",
        description=(
            "Seconds until a search is answered, with the embedding of its query. High: the dashboard Search and runs"
            " shows which stage takes the time."
        ),
        unit="s",
        queries=[
            PanelQuery(expr=quantile(0.5, "kb_search_seconds", where='{stage="total"}'), legend="half of them"),
            PanelQuery(expr=quantile(0.95, "kb_search_seconds", where='{stage="total"}'), legend="95 %"),
        ],
        alerts=["KbSearchLatencyBudgetBurn"],
        threshold=0.5,
    ),
    Panel(
        title="Time from an event to the search",
        description=(
            "Seconds from the event of a new text or tag until searches find its chunks. High: the dashboard Pipeline"
            " shows where documents wait."
        ),
        unit="s",
        queries=[
            PanelQuery(
                expr=quantile(0.5, "kb_time_to_searchable_seconds", where='{path=~"ocr|tag"}'), legend="half of them"
            ),
            PanelQuery(expr=quantile(0.95, "kb_time_to_searchable_seconds", where='{path=~"ocr|tag"}'), legend="95 %"),
        ],
        alerts=["KbTimeToSearchableBudgetBurn"],
        threshold=60,
    ),
)

WHAT_IS_WRONG: Final[Sequence[Panel]] = (
    Panel(
        title="Alerts over time",
        description="Each alert while it fires. Several at once: the one that began first is often the cause.",
        unit="short",
        queries=[
            PanelQuery(
                expr='count by (alertname) (ALERTS{alertname=~"Kb.+",alertstate="firing"})', legend="{{alertname}}"
            )
        ],
    ),
    Panel(
        title="Requests answered with 5xx",
        description=(
            "Share of the HTTP requests of a service, without searches, which have their own objective. High: see"
            " http.failed in the logs of the service, which names the route and the problem."
        ),
        unit="percentunit",
        queries=[
            PanelQuery(
                expr=share(
                    f'kb_http_requests_total{{{OF_API_AND_MODELS},status=~"5.."}}',
                    f"kb_http_requests_total{{{OF_API_AND_MODELS}}}",
                    by="job",
                ),
                legend="{{job}}",
            )
        ],
        alerts=["KbHttpErrors"],
        threshold=0.01,
    ),
    Panel(
        title="Age of the oldest change that is not searchable",
        description=(
            "Seconds that the oldest change of a document has waited: in the outbox, in Kafka or as an index job."
            " Documents that wait for a person or a budget do not count. High: see the dashboard Pipeline."
        ),
        unit="s",
        queries=[PanelQuery(expr="kb:freshness:age_seconds", legend="oldest change")],
        alerts=["KbFreshnessBudgetBurn", "KbIndexLag"],
        threshold=300,
    ),
    Panel(
        title="Replicas that do not answer",
        description=(
            "Replicas whose metrics Prometheus could not read. Above 0 for minutes: see the state and the logs of these"
            " replicas. The process hangs, restarts again and again, or can't be reached."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=f"count by (job) (up{{{SERVICES}}}) - sum by (job) (up{{{SERVICES}}})",
                legend="{{job}}",
            )
        ],
        alerts=["KbTargetDown", "KbServiceDown"],
        threshold=1,
    ),
    Panel(
        title="Time since MongoDB answered",
        description=(
            "Seconds since any service has got an answer from MongoDB. A minute: no primary answers, and nothing works."
            " Seconds again and again: MongoDB is slow."
        ),
        unit="s",
        queries=[PanelQuery(expr="min(kb_mongo_last_answer_age_seconds)", legend="last answer")],
        alerts=["KbMongoDown"],
        threshold=60,
    ),
    Panel(
        title="Event-loop lag",
        description=(
            "Seconds that a process answered late because its CPU was busy; the worst replica of each service. High:"
            " give it more CPU, or start more replicas."
        ),
        unit="s",
        queries=[PanelQuery(expr="max by (job) (kb_event_loop_lag_seconds)", legend="{{job}}")],
    ),
    Panel(
        title="Tasks of the event loop",
        description=(
            "Tasks that a process works on at once; the most of each service. Growing for hours while the load does"
            " not: tasks are never finished. Report it, and restart the service."
        ),
        unit="short",
        queries=[PanelQuery(expr="max by (job) (kb_event_loop_tasks)", legend="{{job}}")],
    ),
    Panel(
        title="Spans that were lost",
        description=(
            "Spans of traces in 5 minutes that were not exported. Rising: the collector is away or too slow. Users"
            " notice nothing, but traces have gaps."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_spans_dropped_total", by="reason"),
                legend="{{reason}}",
                zero_reason="spans are exported only if a collector is configured",
            )
        ],
        alerts=["KbSpansDropped"],
    ),
    Panel(
        title="Versions that run",
        description=(
            "Replicas of each service by version. Two versions of a service are normal during an update only: see"
            " docs/how-to/update.md for the order of services."
        ),
        unit="short",
        queries=[PanelQuery(expr="count by (service, version) (kb_build_info)", legend="{{service}} {{version}}")],
    ),
)

OVERVIEW: Final = Dashboard(
    uid="kb-overview",
    title="1 Overview and objectives",
    question="Do users get what they were promised, and if not, where to look?",
    rows=[
        PanelRow(title="Now", panels=[ALERTS_THAT_FIRE, *(_budget_left(each) for each in OBJECTIVES)]),
        PanelRow(title="How fast the error budgets are used", panels=[_burn_rate(each) for each in OBJECTIVES]),
        PanelRow(title="What users notice", panels=WHAT_USERS_NOTICE),
        PanelRow(title="What is wrong", panels=WHAT_IS_WRONG),
    ],
)
