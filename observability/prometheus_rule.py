"""`python -m observability.prometheus_rule`: writes the rules of Prometheus as an object of its operator.

kustomize reads no files of other folders, so the rules of `observability/prometheus/rules` are copied into `k8s/base`.
"""

from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
RULES: Final = ROOT / "observability/prometheus/rules"
TARGET: Final = ROOT / "k8s/base/prometheus-rule.yaml"
_HEADER: Final = "# Written by `make manifests` from observability/prometheus/rules. Change the rules there.\n"


def read_groups(folder: Path = RULES) -> list[dict[str, Any]]:
    """Return the groups of all files of rules, in the order of their names."""
    groups: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.yml")):
        groups += yaml.safe_load(file.read_text("utf-8"))["groups"]
    return groups


def render() -> str:
    """Return the text of the manifest."""
    manifest = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "knowledge-bases"},
        "spec": {"groups": read_groups()},
    }
    text = yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return f"{_HEADER}{text}"


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # the library has no types
    """Writes texts of several lines as blocks, as in the files of rules."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def main() -> None:
    TARGET.write_text(render(), "utf-8")


if __name__ == "__main__":
    main()
