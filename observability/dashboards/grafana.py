"""Grafana's form of a dashboard."""

from string import ascii_uppercase
from typing import Final

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from observability.dashboards.panel import Dashboard, Panel

DATASOURCE_UID: Final = "prometheus"
"""As in `observability/grafana/provisioning/datasources`."""
TAG: Final = "knowledge-bases"
RUNBOOKS: Final = "docs/runbooks"
_DATASOURCE: Final = models.DataSourceRef(type_val="prometheus", uid=DATASOURCE_UID)
_HEIGHTS: Final = {"graph": 8, "number": 5}
_GREEN, _RED = "green", "red"


def to_json(dashboard: Dashboard, *, runbooks: str = RUNBOOKS) -> str:
    """Return the file that Grafana reads, the same for the same dashboard.

    Args:
        dashboard: what to show.
        runbooks: address of the folder of runbooks, where the repository can be read in a browser.
    """
    return JSONEncoder(sort_keys=True, indent=2).encode(to_grafana(dashboard, runbooks=runbooks)) + "\n"


def to_grafana(dashboard: Dashboard, *, runbooks: str = RUNBOOKS) -> models.Dashboard:
    """Return the dashboard as Grafana's model."""
    builder = (
        builders.Dashboard(dashboard.title)
        .uid(dashboard.uid)
        .description(dashboard.question)
        .tags([TAG])
        .time("now-6h", "now")
        .refresh("30s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            builders.DashboardLink("Dashboards")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
        )
    )
    if dashboard.by_knowledge_base:
        builder.with_variable(_choice_of_knowledge_base())
    number = 0
    for row in dashboard.rows:
        number += 1
        builder.with_row(builders.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            builder.with_panel(_builder_of(panel, runbooks).id(number))
    return builder.build()


def _choice_of_knowledge_base() -> builders.QueryVariable:
    return (
        builders.QueryVariable("kb_id")
        .label("Knowledge base")
        .datasource(_DATASOURCE)
        .query("label_values(kb_chunks_indexed_total, kb_id)")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def _builder_of(panel: Panel, runbooks: str) -> timeseries.Panel | stat.Panel:
    builder = _graph() if panel.kind == "graph" else _number()
    builder.title(panel.title).description(_description(panel)).unit(panel.unit)
    builder.datasource(_DATASOURCE).span(panel.width).height(_HEIGHTS[panel.kind])
    builder.targets([_target(panel, position) for position in range(len(panel.queries))])
    builder.links([_link(alert, runbooks) for alert in panel.alerts])
    builder.thresholds(builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(_steps(panel)))
    if isinstance(builder, timeseries.Panel) and panel.threshold is not None:
        builder.thresholds_style(common.GraphThresholdsStyleConfig().mode(common_models.GraphTresholdsStyleMode.DASHED))
    return builder


def _graph() -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(common_models.LegendDisplayMode.LIST)
        .placement(common_models.LegendPlacement.BOTTOM)
    )
    tooltip = (
        common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI).sort(common_models.SortOrder.DESCENDING)
    )
    return timeseries.Panel().legend(legend).tooltip(tooltip).fill_opacity(10).axis_soft_min(0)


def _number() -> stat.Panel:
    return (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_mode(common_models.BigValueColorMode.BACKGROUND)
        .graph_mode(common_models.BigValueGraphMode.AREA)
        .text_mode(common_models.BigValueTextMode.AUTO)
    )


def _description(panel: Panel) -> str:
    runbooks = [f"Runbook: {RUNBOOKS}/{alert}.md" for alert in panel.alerts]
    return "\n\n".join([panel.description, *runbooks])


def _target(panel: Panel, position: int) -> prometheus.Dataquery:
    query = panel.queries[position]
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(ascii_uppercase[position])
    return target.range() if panel.kind == "graph" else target.instant()


def _link(alert: str, runbooks: str) -> builders.DashboardLink:
    return (
        builders.DashboardLink(f"Runbook {alert}")
        .type(models.DashboardLinkType.LINK)
        .url(f"{runbooks}/{alert}.md")
        .target_blank(True)
    )


def _steps(panel: Panel) -> list[models.Threshold]:
    below, above = (_RED, _GREEN) if panel.is_bad_below else (_GREEN, _RED)
    first = models.Threshold(value=None, color=below if panel.threshold is not None else _GREEN)
    return [first, *([models.Threshold(value=panel.threshold, color=above)] if panel.threshold is not None else [])]
