"""The faster rules of `make test-alerts` are those of the repository, but for times."""

from typing import Any

import yaml

from tests.alerts.short_windows import shorten_query, shorten_routes, shorten_rules
from tests.deployment.alert_rules import OBSERVABILITY


def test_windows_and_ages_become_shorter_and_shares_and_numbers_stay() -> None:
    assert shorten_query("rate(kb_spu_charged_total[3d]) > 0.5") == "rate(kb_spu_charged_total[2160s]) > 0.5"
    assert shorten_query("increase(kb_spu_charged_total[5m]) > 10") == "increase(kb_spu_charged_total[20s]) > 10"
    assert shorten_query("kb_dlq_depth offset 1d > 100") == "kb_dlq_depth offset 720s > 100"
    assert shorten_query("kb:freshness:age_seconds > bool 900") == "kb:freshness:age_seconds > bool 180"
    assert shorten_query("max by (group) (kb_consumer_stuck_seconds) > 600") == (
        "max by (group) (kb_consumer_stuck_seconds) > 120"
    )

    slow = "histogram_quantile(0.95, sum by (le) (rate(kb_search_seconds_bucket[5m]))) > 1"
    assert shorten_query(slow).endswith("[20s]))) > 4")


def test_no_rule_is_left_out_but_those_of_three_days() -> None:
    for file in (OBSERVABILITY / "prometheus" / "rules").glob("*.yml"):
        rules = yaml.safe_load(file.read_text())
        shortened = shorten_rules(rules)["groups"]
        assert [names_of(group) for group in shortened] == [names_of(group) for group in rules["groups"]]
        assert not any("interval" in group for group in shortened)


def names_of(group: dict[str, Any]) -> list[str]:
    return [
        rule.get("alert", rule.get("record")) for rule in group["rules"] if rule.get("labels", {}).get("window") != "3d"
    ]


def test_routes_keep_their_receivers_and_what_they_mute() -> None:
    config = yaml.safe_load((OBSERVABILITY / "alertmanager" / "alertmanager.yml").read_text())
    shortened = shorten_routes(config)
    assert shortened["inhibit_rules"] == config["inhibit_rules"]
    assert [each["receiver"] for each in shortened["route"]["routes"]] == ["page"]
    assert shortened["route"]["group_by"] == config["route"]["group_by"]
