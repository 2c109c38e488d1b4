"""`python -m benchmarks.plots`: draws the plots of docs/explanation from the figures in benchmarks/measured.

With `--load FILE`, `--soak FILE` or `--units FILE`, the JSON of a new run replaces the figures first, with fewer
samples.
"""

import argparse
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.capacity.__main__ import MEASURED
from benchmarks.capacity.plan import QUANTIZATIONS, vector_memory_bytes
from benchmarks.plots.chart import ChartLine, ChartMark, LineChart, Point, render_chart

FIGURES: Final = Path(__file__).parents[1] / "measured"
PLOTS: Final = Path(__file__).parents[2] / "docs" / "explanation" / "plots"
_SAMPLE_EVERY_S: Final = 20.0
_DRAWN_PROCESSES: Final = ("kb-api", "kb-indexer", "kb-search", "kb-reconciler", "search-node")
_CHUNKS: Final = (1e6, 1e7, 1e8, 1e9, 1e10)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    for name in ("load", "soak", "units"):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"JSON of a new run of {name}")
    options = parser.parse_args()
    FIGURES.mkdir(exist_ok=True)
    PLOTS.mkdir(exist_ok=True)
    if options.units is not None:
        shutil.copyfile(options.units, MEASURED)
    if options.load is not None:
        shutil.copyfile(options.load, FIGURES / "load.json")
    if options.soak is not None:
        reduced = reduce_soak(json.loads(options.soak.read_text()))
        (FIGURES / "soak.json").write_text(json.dumps(reduced) + "\n")
    for name, chart in charts(FIGURES):
        (PLOTS / f"{name}.svg").write_text(render_chart(chart))


def charts(folder: Path) -> Iterator[tuple[str, LineChart]]:
    """Yield the name and the description of each plot."""
    load, soak = (json.loads((folder / f"{name}.json").read_text()) for name in ("load", "soak"))
    yield "load-latency", _latencies(load)
    yield "soak-memory", _of_processes(soak, "memory_mb", "Memory of each process during the soak", "MB")
    yield "soak-descriptors", _of_processes(soak, "descriptors", "Open descriptors of each process", "descriptors")
    yield "soak-tasks", _of_processes(soak, "tasks", "Tasks of each event loop", "tasks")
    yield "soak-lag", _lag(soak)
    dimensions = int(json.loads(MEASURED.read_text())["options"]["dims"])
    yield "capacity-search-memory", _search_memory(dimensions)


def reduce_soak(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report with a sample every twenty seconds."""
    samples = report["samples"]
    return {
        **{name: value for name, value in report.items() if name not in ("samples", "load")},
        "samples": {
            "processes": [
                {**life, "figures": {name: _thin_out(points) for name, points in life["figures"].items()}}
                for life in samples["processes"]
            ],
            "lag_records": _thin_out(samples["lag_records"]),
            "queued_jobs": _thin_out(samples["queued_jobs"]),
        },
    }


def _thin_out(points: list[Point]) -> list[Point]:
    """Keep the greatest of the values of each interval."""
    greatest: dict[int, Point] = {}
    for at_s, value in points:
        interval = int(at_s / _SAMPLE_EVERY_S)
        if interval not in greatest or value > greatest[interval][1]:
            greatest[interval] = (round(at_s, 1), round(value, 1))
    return list(greatest.values())


def _latencies(load: Mapping[str, Any]) -> LineChart:
    # Of 1 in 10 calls, 1 in 100 and so on: equal steps to the right.
    lines = [
        ChartLine(name, [(1 / (1 - percentile / 100), value) for percentile, value in curve if percentile < 100])
        for name, curve in load["curves_ms"].items()
        if curve
    ]
    ticks = [(1.0, "0 %"), (2.0, "50 %"), (10.0, "90 %"), (100.0, "99 %"), (1_000.0, "99.9 %")]
    title = "Latency from the scheduled time of a call"
    return LineChart(title, "percentile", "ms", lines, log_x=True, log_y=True, ticks=ticks)


def _of_processes(soak: Mapping[str, Any], figure: str, title: str, unit: str) -> LineChart:
    points: dict[str, list[Point]] = {}
    for life in soak["samples"]["processes"]:
        if life["process"] in _DRAWN_PROCESSES and figure in life["figures"]:
            points.setdefault(life["process"], []).extend(life["figures"][figure])
    lines = [ChartLine(name, _in_minutes(points[name])) for name in _DRAWN_PROCESSES if name in points]
    return LineChart(title, "minutes (dotted: faults)", unit, lines, _marks(soak))


def _lag(soak: Mapping[str, Any]) -> LineChart:
    samples = soak["samples"]
    lines = [
        ChartLine("Kafka lag, messages", _in_minutes(samples["lag_records"])),
        ChartLine("open index jobs", _in_minutes(samples["queued_jobs"])),
    ]
    return LineChart("Unfinished work during the soak", "minutes (dotted: faults)", "number", lines, _marks(soak))


def _search_memory(dimensions: int) -> LineChart:
    lines = [
        ChartLine(
            f"quantization {name}",
            [(chunks, chunks * vector_memory_bytes(dimensions, name) / 1e9) for chunks in _CHUNKS],
        )
        for name in QUANTIZATIONS
    ]
    nodes = ChartLine("node with 128 GB", [(chunks, 0.8 * 128) for chunks in _CHUNKS])
    title = f"Memory of the vector indexes, {dimensions} dimensions (calculated)"
    return LineChart(title, "chunks", "GB of one copy", [*lines, nodes], log_x=True, log_y=True)


def _in_minutes(points: list[Point]) -> list[Point]:
    return [(round(at_s / 60, 2), value) for at_s, value in sorted(map(tuple, points))]


def _marks(soak: Mapping[str, Any]) -> list[ChartMark]:
    return [ChartMark(round(at_s / 60, 2), what) for at_s, what in soak["faults"]]


if __name__ == "__main__":
    main()
