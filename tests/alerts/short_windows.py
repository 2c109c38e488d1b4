"""Makes copies of the rules and routes in which time passes faster, so that an alert fires and ends within a minute.

    windows, offsets    a 120th, at least 20 s: ten scrapes
    `for`               a 120th, at least 12 s; 30 s if it looks at `up`: a process restarts as slowly as ever
    `keep_firing_for`   a 120th, at least 45 s; 90 s if it looks at providers: after an outage of half a minute, their
                        circuits stay open and documents wait for as long as ever, which must raise no other alert
    ages                a fifth: limits of what has waited for some seconds
    60 s to searchable  300 s: after an outage, documents come as late as ever
    500 ms of a search  2.5 s: a machine that runs all of it is busy
    slow MongoDB        four times as slow, for the same reason; a quarter of the searches: few are answered meanwhile
    groups              notified after 5 s, and every 2 s

Everything else is that of the repository, shares and numbers of events included. Alerts on the burn rate of
three days are left out: they tell of a fault after its end, because a part of the budget is used.
"""

import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import promql_parser
import yaml

from tests.deployment.alert_rules import OBSERVABILITY

FASTER: Final = 120
AGES_FASTER: Final = 5
SLOWER: Final = 4
SHORTEST_WINDOW: Final = timedelta(seconds=20)
SHORTEST: Final = {"for": timedelta(seconds=12), "keep_firing_for": timedelta(seconds=45)}
LONGEST_RESTART: Final = timedelta(seconds=30)
LONGEST_RECOVERY: Final = timedelta(seconds=90)
LEFT_OUT: Final = "3d"
INTERVAL_S: Final = 2.0
"""Seconds between two scrapes, and between two evaluations."""
_WINDOW: Final = re.compile(r"(?P<before>\[|offset )(?P<duration>\d[\dsmhdw]*)")
_AGE: Final = re.compile(
    r"(?P<before>(?:age|stuck|lag|timestamp)_seconds[^>\n]*> (?:bool )?)(?P<limit>\d+)", re.MULTILINE
)
_SLOW: Final = re.compile(r"(?P<before>histogram_quantile\([^\n]+\) > )(?P<limit>[\d.]+)")
_SEARCHES: Final = re.compile(r"(?P<before>kb_search_seconds_count[^>\n]+ > )(?P<number>\d+)")
_ROUTE: Final = {"group_wait": "5s", "group_interval": "2s", "repeat_interval": "1h"}


def write_short_windows(folder: Path) -> Path:
    """Write the configuration of Prometheus and Alertmanager to a folder, and return it."""
    shutil.copytree(OBSERVABILITY / "prometheus", folder / "prometheus")
    for file in (folder / "prometheus" / "rules").glob("*.yml"):
        file.write_text(yaml.safe_dump(shorten_rules(yaml.safe_load(file.read_text()))))
    routes = yaml.safe_load((OBSERVABILITY / "alertmanager" / "alertmanager.yml").read_text())
    (folder / "alertmanager").mkdir()
    (folder / "alertmanager" / "alertmanager.yml").write_text(yaml.safe_dump(shorten_routes(routes)))
    return folder


def shorten_rules(file: dict[str, Any]) -> dict[str, Any]:
    """Return a file of rules in which time passes faster."""
    # Without an interval of its own, a group has that of the configuration.
    return {"groups": [{"name": group["name"], "rules": _shorten_all(group["rules"])} for group in file["groups"]]}


def _shorten_all(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_shorten_rule(rule) for rule in rules if rule.get("labels", {}).get("window") != LEFT_OUT]


def shorten_routes(config: dict[str, Any]) -> dict[str, Any]:
    route = config["route"]
    return {**config, "route": {**route, **_ROUTE, "routes": [{**each, **_ROUTE} for each in route["routes"]]}}


def shorten_query(query: str) -> str:
    """Return a query with shorter windows and lower limits of ages."""
    query = _WINDOW.sub(lambda match: match["before"] + _shorter(match["duration"], SHORTEST_WINDOW), query)
    query = _AGE.sub(lambda match: f"{match['before']}{int(match['limit']) / AGES_FASTER:g}", query)
    query = _SLOW.sub(lambda match: f"{match['before']}{float(match['limit']) * SLOWER:g}", query)
    query = _SEARCHES.sub(lambda match: f"{match['before']}{int(match['number']) / SLOWER:g}", query)
    return query.replace('le="60.0"', 'le="300.0"').replace('le="0.5"', 'le="2.5"')


def _shorten_rule(rule: dict[str, Any]) -> dict[str, Any]:
    shortened = {**rule, "expr": shorten_query(rule["expr"])}
    return shortened | {name: _shorter(rule[name], _shortest(name, rule["expr"])) for name in SHORTEST if name in rule}


def _shortest(name: str, expr: str) -> timedelta:
    if name == "for" and "up{" in expr:
        return LONGEST_RESTART
    if name == "keep_firing_for" and "kb_provider_responses_total" in expr:
        return LONGEST_RECOVERY
    return SHORTEST[name]


def _shorter(duration: str, shortest: timedelta) -> str:
    length: timedelta = promql_parser.parse_duration(duration)
    return f"{round(max(length / FASTER, shortest).total_seconds())}s"
