import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from observability.dashboards.__main__ import FOLDER
from observability.dashboards.all_dashboards import DASHBOARDS
from observability.dashboards.grafana import DATASOURCE_UID, to_json
from observability.dashboards.panel import Dashboard
from tests.deployment.alert_rules import load_setup
from tests.deployment.dashboard_checks import check_dashboard, replace_variables
from tests.deployment.known_series import series_in_prometheus
from tests.deployment.promql import names_in_query

ROOT = Path(__file__).parents[2]
PROVISIONING = ROOT / "observability" / "grafana" / "provisioning"
SETUP = load_setup()
KNOWN = series_in_prometheus(SETUP.recorded)
ALERTS = SETUP.alert_names
NUMBER = re.compile(r"\d+(?:\.\d+)?")

of_each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)


def written(dashboard: Dashboard) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{dashboard.uid}.json").read_text())
    return content


@of_each_dashboard
def test_the_committed_file_is_what_the_code_writes(dashboard: Dashboard) -> None:
    assert (FOLDER / f"{dashboard.uid}.json").read_text() == to_json(dashboard), "run `make dashboards`"


def test_there_is_no_file_of_another_dashboard() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == {dashboard.uid for dashboard in DASHBOARDS}


@of_each_dashboard
def test_grafanas_model_reads_the_file_and_writes_it_again(dashboard: Dashboard) -> None:
    text = (FOLDER / f"{dashboard.uid}.json").read_text()
    model = models.Dashboard.from_json(json.loads(text))
    assert json.loads(JSONEncoder().encode(model)) == json.loads(text)


@of_each_dashboard
def test_each_panel_fits_the_metrics_and_the_alerts(dashboard: Dashboard) -> None:
    assert check_dashboard(written(dashboard), known=KNOWN, alerts=ALERTS) == []


def test_every_metric_is_shown() -> None:
    shown = {
        name
        for dashboard in DASHBOARDS
        for panel in dashboard.panels
        for query in panel.queries
        for name in names_in_query(replace_variables(query.expr))
    }
    exported = {name.removesuffix("_bucket") for name in KNOWN if name.startswith("kb_")}
    exported -= {f"{name}_{part}" for name in exported for part in ("sum", "count")}
    assert exported - {name.removesuffix("_bucket").removesuffix("_sum") for name in shown} == set()


@of_each_dashboard
def test_a_graph_is_red_from_the_value_of_its_alert(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        if panel.threshold not in {None, 0, 1}:
            limits = {number for alert in panel.alerts for number in limits_of(alert)}
            assert panel.threshold in limits, panel.title


def limits_of(alert: str) -> set[float]:
    """Return the numbers in the conditions of an alert and in the rules that they use."""
    conditions = [rule.expr for rule in SETUP.alerts if rule.name == alert]
    recorded = {rule.name: rule.expr for rule in SETUP.rules if not rule.is_alert}
    for condition in conditions:
        conditions += [recorded[name] for name in names_in_query(condition) if name in recorded]
    return {float(number) for condition in conditions for number in NUMBER.findall(condition)}


@of_each_dashboard
def test_panels_lie_beside_each_other_in_24_columns(dashboard: Dashboard) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in written(dashboard)["panels"]:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        assert columns.stop <= 24, panel["title"]
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells


def test_grafana_is_provisioned_with_the_data_source_that_the_panels_name() -> None:
    [source] = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert source["uid"] == DATASOURCE_UID
    prometheus = yaml.safe_load((ROOT / "observability" / "prometheus" / "prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]
    named = {
        panel["datasource"]["uid"] for each in DASHBOARDS for panel in written(each)["panels"] if "targets" in panel
    }
    assert named == {DATASOURCE_UID}


def test_the_page_says_which_question_each_dashboard_answers() -> None:
    page = (ROOT / "docs" / "how-to" / "observe.md").read_text()
    rows = re.findall(r"^\| (\d .+?) \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(dashboard.title, dashboard.question) for dashboard in DASHBOARDS]


def in_query(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def plant(panel: dict[str, Any]) -> None:
        assert old in panel["targets"][0]["expr"]
        panel["targets"][0]["expr"] = panel["targets"][0]["expr"].replace(old, new)

    return plant


def change(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda panel: panel.update(fields)


MISTAKES: dict[str, tuple[str, Callable[[dict[str, Any]], None], str]] = {
    "a metric that was renamed": (
        "Searches by outcome",
        in_query("kb_search_requests_total", "kb_searches_total"),
        "kb_searches_total is exported by no service and recorded by no rule",
    ),
    "a histogram without its suffix": (
        "Duration of a search",
        in_query("kb_search_seconds_bucket", "kb_search_seconds"),
        "kb_search_seconds is exported by no service and recorded by no rule",
    ),
    "a rule that was renamed": (
        "Burn rate: freshness",
        in_query("error_ratio5m", "errors5m"),
        "kb:freshness:errors5m is exported by no service and recorded by no rule",
    ),
    "a label that does not exist": (
        "Duration of a search",
        in_query("stage=", "step="),
        "kb_search_seconds_bucket has no label step",
    ),
    "a label to aggregate by that does not exist": (
        "Searches by outcome",
        in_query("by (outcome)", "by (result)"),
        "groups by result, which no series of it has",
    ),
    "a bucket that does not exist": (
        "Budget left: search latency",
        in_query('le="0.5"', 'le="0.4"'),
        "le of kb_search_seconds_bucket is never 0.4",
    ),
    "a value that a label never has": (
        "Duration of a search",
        in_query('stage="total"', 'stage="all"'),
        "stage of kb_search_seconds_bucket is never all",
    ),
    "a quantile without le": (
        "Duration of a search",
        in_query("sum by (le)", "sum by (stage)"),
        "histogram_quantile needs the label le",
    ),
    "a rate of a gauge": (
        "Searches by outcome",
        in_query(
            "sum by (outcome) (rate(kb_search_requests_total[$__rate_interval]))", "rate(kb_event_loop_lag_seconds[1m])"
        ),
        "rate of kb_event_loop_lag_seconds, which is a gauge",
    ),
    "a sum of totals": (
        "Versions that run",
        in_query("count by (service, version) (kb_build_info)", "sum(kb_indexing_queue_depth)"),
        "kb_indexing_queue_depth is exported by each replica: use max, not sum",
    ),
    "a query that is no PromQL": (
        "Versions that run",
        in_query("(kb_build_info)", "(kb_build_info"),
        "is not PromQL",
    ),
    "a legend with another label": (
        "Searches by outcome",
        lambda panel: panel["targets"][0].update(legendFormat="{{result}}"),
        "has a legend with the label result, which the answer does not have",
    ),
    "a missing description": ("Versions that run", change(description=""), "has no description"),
    "a missing unit": ("Versions that run", change(fieldConfig={"defaults": {}}), "has no unit"),
    "a missing legend": (
        "Versions that run",
        lambda panel: panel["targets"][0].update(legendFormat=""),
        "has a query without a legend",
    ),
    "a runbook of no alert": (
        "Versions that run",
        change(links=[{"url": "docs/runbooks/KbGone.md"}]),
        "links to the runbook of KbGone, which is no alert",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_its_panel(mistake: str) -> None:
    title, plant, finding = MISTAKES[mistake]
    dashboard = copy.deepcopy(written(DASHBOARDS[0]))
    [panel] = [panel for panel in dashboard["panels"] if panel["title"] == title]
    plant(panel)
    reported = check_dashboard(dashboard, known=KNOWN, alerts=ALERTS)
    assert any(each.startswith(f"{title}: {finding}") for each in reported)
    assert all(each.startswith(f"{title}: ") for each in reported)
