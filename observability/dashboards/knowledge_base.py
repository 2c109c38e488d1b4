from collections.abc import Sequence
from typing import Final

from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import recent_increase, total_rate

CHUNKS: Final = 'kb_chunks_indexed_total{kb_id="$kb_id"}'
ERRORS: Final = 'kb_indexing_errors_total{kb_id="$kb_id"}'

IN_THE_RANGE: Final[Sequence[Panel]] = (
    Panel(
        title="Failed attempts to index",
        description=(
            "In the time range of the dashboard. Most are repeated. Above 0: GET"
            " /knowledge-bases/$kb_id/documents?status=failed lists the documents that are not."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase(ERRORS, window="$__range") + " or vector(0)", legend="attempts"),
        ],
        alerts=["KbDocumentsFailing"],
        kind="number",
        width=8,
    ),
    Panel(
        title="Chunks written",
        description=(
            "In the time range of the dashboard. 0 although documents have changed: their jobs wait, see the dashboard"
            " Pipeline, or the indexing of the knowledge base is paused."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase(CHUNKS, window="$__range"), legend="chunks")],
        kind="number",
        width=8,
    ),
    Panel(
        title="Share of all chunks written",
        description=(
            "In the time range of the dashboard. Near 100 % while others wait: this knowledge base is filled for the"
            " first time or reindexed. Organizations take turns, so others are slowed down but not stopped."
        ),
        unit="percentunit",
        queries=[
            PanelQuery(
                expr=(
                    f"{recent_increase(CHUNKS, window='$__range')}"
                    f" / ({recent_increase('kb_chunks_indexed_total', window='$__range')} > 0)"
                ),
                legend="share",
            )
        ],
        kind="number",
        width=8,
    ),
)

OVER_TIME: Final[Sequence[Panel]] = (
    Panel(
        title="Errors by type",
        description=(
            "Failed attempts in 5 minutes. docs/reference/errors.md explains each type and what to do. Provider errors"
            " concern all knowledge bases with the same model."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase(ERRORS, by="error_type"), legend="{{error_type}}")],
        alerts=["KbDocumentsFailing", "KbProviderFailing"],
    ),
    Panel(
        title="Chunks a second",
        description="Chunks a second that were written to the collection of this knowledge base, by replica.",
        unit="short",
        queries=[PanelQuery(expr=total_rate(CHUNKS, by="instance"), legend="{{instance}}")],
    ),
    Panel(
        title="Knowledge bases with figures of their own",
        description=(
            "Knowledge bases on which indexers have worked since they started; the most of one replica. At"
            " KB_METRICS_MAX_KB, further ones are counted together as _other: raise it, if Prometheus has room."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr="max(count by (instance) (count by (instance, kb_id) (kb_chunks_indexed_total)))",
                legend="knowledge bases",
            )
        ],
    ),
)

KNOWLEDGE_BASE: Final = Dashboard(
    uid="kb-knowledge-base",
    title="7 One knowledge base",
    question="What happens in one knowledge base? Choose it above. GET /knowledge-bases lists ids and names.",
    rows=[
        PanelRow(title="In the time range", panels=IN_THE_RANGE),
        PanelRow(title="Over time", panels=OVER_TIME),
    ],
    by_knowledge_base=True,
)
