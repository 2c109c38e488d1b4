"""The tables of spans and of OpenTelemetry's variables in the docs are those of the code."""

import re
from pathlib import Path
from typing import Final

from opentelemetry import environment_variables as variables_of_api
from opentelemetry.sdk import environment_variables as variables_of_sdk

from kb_shared.observability import spans
from kb_shared.observability.spans import SpanType

ROOT: Final = Path(__file__).parents[2]
DOCUMENTED: Final = re.compile(
    r"^\| `(?P<name>[^`]+)` \| (?P<kind>\w+) \| (?P<attributes>[^|]*) \| (?P<meaning>.*) \|$", re.MULTILINE
)
VARIABLE: Final = re.compile(r"^\| `(?P<name>OTEL_\w+)` \|", re.MULTILINE)


def catalogue() -> list[SpanType]:
    return [value for value in vars(spans).values() if isinstance(value, SpanType)]


def test_every_span_is_documented_as_it_is_and_nothing_else_is() -> None:
    text = (ROOT / "docs/reference/traces.md").read_text()
    documented = {row["name"]: (row["kind"], row["attributes"], row["meaning"]) for row in DOCUMENTED.finditer(text)}
    assert documented == {
        each.template: (each.kind, ", ".join(f"`{name}`" for name in each.attributes) or "none", each.meaning)
        for each in catalogue()
    }


def test_every_span_is_made_somewhere() -> None:
    sources = [
        source.read_text()
        for folder in ("services", "shared")
        for source in (ROOT / folder).rglob("*.py")
        if source.name != "spans.py"
    ]
    names = [name for name, value in vars(spans).items() if isinstance(value, SpanType)]
    assert [name for name in names if not any(f"spans.{name}" in source for source in sources)] == []


def test_attributes_that_are_not_of_the_conventions_are_named_as_ours() -> None:
    of_conventions = ("error.", "gen_ai.", "http.", "kb.", "mcp.", "messaging.")
    names = {name for each in catalogue() for name in each.attributes}
    assert [name for name in names if not name.startswith(of_conventions)] == []


def test_a_variable_that_is_documented_is_one_of_opentelemetry() -> None:
    documented = VARIABLE.findall((ROOT / "docs/reference/settings.md").read_text())
    known = {
        value
        for module in (variables_of_api, variables_of_sdk)
        for name, value in vars(module).items()
        if name.startswith("OTEL_")
    }
    assert len(documented) > 10
    assert [name for name in documented if name not in known] == []


def test_every_variable_that_the_services_read_themselves_is_documented() -> None:
    documented = set(VARIABLE.findall((ROOT / "docs/reference/settings.md").read_text()))
    source = (ROOT / "shared/kb_shared/observability/span_settings.py").read_text()
    assert set(re.findall(r'"(OTEL_\w+)"', source)) <= documented
