from xml.etree import ElementTree as ET

import pytest

from benchmarks.plots.__main__ import FIGURES, PLOTS, charts, reduce_soak
from benchmarks.plots.chart import ChartLine, ChartMark, LineChart, render_chart

SVG = "{http://www.w3.org/2000/svg}"


def test_committed_plots_are_those_of_the_committed_figures() -> None:
    drawn = {f"{name}.svg": render_chart(chart) for name, chart in charts(FIGURES)}

    assert {file.name for file in PLOTS.glob("*.svg")} == set(drawn)
    for name, svg in drawn.items():
        assert (PLOTS / name).read_text() == svg, f"run `python -m benchmarks.plots`: {name} is old"


def test_points_are_where_the_axes_say() -> None:
    chart = LineChart("T", "x", "y", [ChartLine("a", [(0, 0), (5, 50), (10, 100)])], [ChartMark(5, "kill <x>")])

    root = ET.fromstring(render_chart(chart))

    [line] = root.iter(f"{SVG}polyline")
    places = [tuple(map(float, place.split(","))) for place in (line.get("points") or "").split()]
    [first, middle, last] = places
    assert middle == pytest.approx(((first[0] + last[0]) / 2, (first[1] + last[1]) / 2))
    assert last[0] > first[0]
    assert last[1] < first[1]
    [mark] = [each for each in root.iter(f"{SVG}line") if each.get("stroke-dasharray")]
    assert float(mark.get("x1") or 0) == middle[0]
    assert "kill <x>" in [each.text for each in root.iter(f"{SVG}title")]
    assert {"0", "20", "100"} <= {each.text for each in root.iter(f"{SVG}text")}


def test_powers_of_ten_are_equally_far_apart_on_a_logarithmic_axis() -> None:
    chart = LineChart("T", "x", "y", [ChartLine("a", [(1, 1), (10, 10), (100, 100)])], log_x=True, log_y=True)

    [line] = ET.fromstring(render_chart(chart)).iter(f"{SVG}polyline")

    [first, middle, last] = [place.split(",") for place in (line.get("points") or "").split()]
    assert float(middle[0]) - float(first[0]) == pytest.approx(float(last[0]) - float(middle[0]), abs=0.2)


def test_a_reduced_soak_keeps_the_peaks() -> None:
    samples = [(at * 5.0, 500.0 if at == 7 else 10.0) for at in range(20)]
    life = {"process": "kb-api", "pid": 1, "figures": {"memory_mb": samples}}
    report = {"passed": True, "load": {}, "samples": {"processes": [life], "lag_records": [], "queued_jobs": []}}

    [reduced] = reduce_soak(report)["samples"]["processes"]

    assert len(reduced["figures"]["memory_mb"]) == 5
    assert (35.0, 500.0) in reduced["figures"]["memory_mb"]
