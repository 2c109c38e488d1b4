import os
import random
from pathlib import Path

import pytest

from benchmarks.soak.faults import KILLED_FIRST, RECURRING, SETTLED_FROM, plan_faults
from benchmarks.soak.flatness import judge_flatness, theil_sen_slope
from benchmarks.soak.samples import count_series, process_figures, values_of
from kb_local.child import Child, execute
from kb_local.server import Server


def test_the_slope_of_a_line_is_found_in_spite_of_spikes() -> None:
    samples = [(float(t), 100 + 2.0 * t) for t in range(50)]
    samples[10] = (10.0, 5_000.0)
    samples[30] = (30.0, 0.0)

    assert theil_sen_slope(samples) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(("per_second", "is_flat"), [(0.0, True), (0.01, True), (0.05, False), (-0.05, True)])
def test_what_grows_by_more_than_the_tolerance_is_not_flat(per_second: float, is_flat: bool) -> None:
    dice = random.Random(1)
    samples = [(t * 5.0, 200 + per_second * t * 5 + dice.gauss(0, 2)) for t in range(180)]

    # 450 s, so a tolerance of 10 is 0.022 a second.
    verdict = judge_flatness(samples, since_s=450, absolute_tolerance=6)

    assert verdict is not None
    assert verdict.is_flat == is_flat
    assert verdict.tolerance == pytest.approx(10, rel=0.25)


def test_growth_before_the_window_does_not_count() -> None:
    samples = [(float(t), min(t, 100) * 3.0) for t in range(300)]

    verdict = judge_flatness(samples, since_s=150, absolute_tolerance=1)

    assert verdict is not None
    assert verdict.is_flat


def test_a_few_samples_are_not_judged() -> None:
    assert judge_flatness([(1.0, 1.0), (2.0, 1_000.0)], since_s=0, absolute_tolerance=1) is None


@pytest.mark.parametrize("seconds", [180, 600, 1_800])
def test_all_faults_come_and_first_replicas_are_killed_early_only(seconds: int) -> None:
    faults = list(plan_faults(seconds=seconds))

    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    assert {fault.what for fault in faults} == {f"kill {name}" for name in KILLED_FIRST} | set(RECURRING)
    for fault in faults:
        if fault.what.removeprefix("kill ") in KILLED_FIRST:
            assert fault.at_s < SETTLED_FROM * seconds
    assert faults[-1].at_s < 0.95 * seconds


def test_series_and_values_of_a_metric_are_read_from_the_exposition() -> None:
    exposition = '# HELP a b\n# TYPE a gauge\na 3.0\na_total{x="1"} 4.0\nb{x="1 2"} 5.0\nb{x="2"} 7.0\n'

    assert count_series(exposition) == 4
    assert values_of(exposition, "a") == [3.0]
    assert values_of(exposition, "b") == [5.0, 7.0]


async def test_the_figures_of_a_process_are_those_of_the_operating_system(tmp_path: Path) -> None:
    server = _Process("python", port=0, log=tmp_path / "log")
    await server.start()
    try:
        figures = dict(process_figures(server))
    finally:
        await server.kill()

    assert figures["sockets"] == 3
    assert figures["descriptors"] == 3 + 3
    assert figures["threads"] == 1
    assert 3 < figures["memory_mb"] < 100
    assert dict(process_figures(server)) == {}


class _Process(Server):
    """A process with three sockets."""

    def _launch(self) -> Child:
        code = (
            "import socket, signal; kept = [socket.socket() for _ in range(3)]; print('r', flush=True); signal.pause()"
        )
        return execute(["/usr/bin/env", "python3", "-c", code], log=self.log, env=os.environ)

    async def is_ready(self) -> bool:
        return self.log.exists() and "r" in self.log.read_text()
