from collections.abc import Sequence
from typing import Final

from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import largest, quantile, recent_increase

STATE: Final[Sequence[Panel]] = (
    Panel(
        title="Reconcilers that lead",
        description=(
            "One replica makes the passes. 0 for minutes: no reconciler works, and lost data is not repaired. 2 for a"
            " moment after a failure is harmless."
        ),
        unit="short",
        queries=[PanelQuery(expr="sum(kb_leader)", legend="leaders")],
        alerts=["KbReconcilerNotRunning"],
        threshold=1,
        is_bad_below=True,
        kind="number",
    ),
    Panel(
        title="Time since the last complete pass",
        description=(
            "Seconds. Normally somewhat more than KB_RECONCILE_INTERVAL_S, and longer during a full pass. Hours: the"
            " reconciler is stuck or down. See pass.failed in its logs."
        ),
        unit="s",
        queries=[
            PanelQuery(expr="time() - max(kb_reconciler_last_success_timestamp_seconds)", legend="since the last pass")
        ],
        alerts=["KbReconcilerNotRunning"],
        threshold=7200,
        kind="number",
    ),
    Panel(
        title="Repairs that were stopped",
        description=(
            "Documents in an hour that a pass did not remove, because they were too many: the brake. Above 0: find out"
            " whether data was lost before you allow the removal."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase('kb_reconciler_repairs_total{outcome="stopped"}', window="1h") + " or vector(0)",
                legend="documents",
            )
        ],
        alerts=["KbReconcilerStopped"],
        threshold=1,
        kind="number",
    ),
    Panel(
        title="Migrations that are pending",
        description=(
            "Migrations that the stored data still lacks. Normal after an update. A day later: see"
            " migration.interrupted in the logs."
        ),
        unit="short",
        queries=[PanelQuery(expr="max(kb_migrations_pending)", legend="migrations")],
        alerts=["KbMigrationPending"],
        threshold=1,
        kind="number",
    ),
)

DRIFT: Final[Sequence[Panel]] = (
    Panel(
        title="Drift by kind",
        description=(
            "Differences between stored data and what it should be, found by the last pass that looked for the kind."
            " docs/reference/drift.md explains each kind. Above 0 pass after pass: repairs fail, or the cause goes on."
        ),
        unit="short",
        queries=[PanelQuery(expr=f"{largest('kb_reconciler_drift', by='kind')} > 0", legend="{{kind}}")],
        alerts=["KbDrift"],
        threshold=1,
        width=12,
    ),
    Panel(
        title="Repairs by kind",
        description=(
            "Repairs in an hour. repaired: made, or given to the indexers as a command. stopped: too many documents"
            " would have been removed. Rising: look for the cause of the drift."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_reconciler_repairs_total", by="kind, outcome", window="1h"),
                legend="{{kind}} {{outcome}}",
            )
        ],
        alerts=["KbReconcilerStopped", "KbDrift"],
        width=12,
    ),
)

PASSES: Final[Sequence[Panel]] = (
    Panel(
        title="Duration of a pass",
        description=(
            "Seconds of a pass with its repairs, and with its pauses while documents wait; 95 % are shorter. High: much"
            " drift, or a long queue of documents. GET /reconcile/passes has the figures of each pass."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_reconciler_pass_seconds", by="pass"), legend="{{pass}}")],
    ),
    Panel(
        title="Passes that ended",
        description=(
            "Passes in an hour. None: the reconciler is stuck or down. Incremental passes follow each other in"
            " KB_RECONCILE_INTERVAL_S, full ones in KB_RECONCILE_FULL_INTERVAL_S."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_reconciler_pass_seconds_count", by="pass", window="1h"), legend="{{pass}}"
            )
        ],
        alerts=["KbReconcilerNotRunning"],
    ),
    Panel(
        title="Documents by state",
        description=(
            "Documents in knowledge bases, counted by the reconciler. A document in two of them counts twice. A fall of"
            " indexed that was not expected: look for lost data before you allow removals."
        ),
        unit="short",
        queries=[PanelQuery(expr=largest("kb_documents", by="state"), legend="{{state}}")],
        alerts=["KbDocumentsFailing"],
    ),
)

RECONCILIATION: Final = Dashboard(
    uid="kb-reconciler",
    title="6 Reconciler",
    question="Is the stored data what it should be, and does somebody look after it?",
    rows=[
        PanelRow(title="Does it work", panels=STATE),
        PanelRow(title="What differs", panels=DRIFT),
        PanelRow(title="Passes", panels=PASSES),
    ],
)
