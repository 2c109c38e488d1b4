"""Exports the folder from which each package of a process was imported.

Preloaded in a zygote, it is part of the metrics of each service that the zygote forks, whatever their version.
"""

import sys
from collections.abc import Iterator
from typing import Final

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

_NAME: Final = "test_loaded_package"


class LoadedPackages(Collector):
    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield one series for each package of the services that is imported now."""
        family = GaugeMetricFamily(_NAME, "Folder of a package of this process", labels=["package", "folder"])
        for name, module in sorted(sys.modules.items()):
            if name.startswith("kb_") and "." not in name:
                family.add_metric([name, next(iter(module.__path__))], 1)
        yield family


def read_loaded_packages(metrics: str) -> dict[str, str]:
    """Return the folder of each package according to the metrics of a process."""
    return {
        sample.labels["package"]: sample.labels["folder"]
        for family in text_string_to_metric_families(metrics)
        if family.name == _NAME
        for sample in family.samples
    }


REGISTRY.register(LoadedPackages())
