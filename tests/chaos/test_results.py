from pathlib import Path

from tests.chaos.__main__ import Conditions, find_green_seeds, record
from tests.chaos.run import Verdict

CONDITIONS = Conditions(seconds=20, replicas=2, reconciler=True)


def _verdict(*problems: str) -> Verdict:
    return Verdict(problems, reads=500, refused_reads=0, stuck=False, took_s=31.4)


def test_a_seed_that_passed_under_the_same_conditions_is_not_run_again(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    assert find_green_seeds(results, CONDITIONS) == set()
    record(results, 1, CONDITIONS, _verdict())
    record(results, 2, CONDITIONS, _verdict("a stray collection"))
    record(results, 3, Conditions(seconds=8, replicas=2, reconciler=True), _verdict())
    record(results, 4, Conditions(seconds=20, replicas=2, reconciler=False), _verdict())
    assert find_green_seeds(results, CONDITIONS) == {1}
    record(results, 2, CONDITIONS, _verdict())
    assert find_green_seeds(results, CONDITIONS) == {1, 2}
