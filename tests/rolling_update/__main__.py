"""`python -m tests.rolling_update`: updates a running system and goes back, under load; no request may fail.

It starts mongod, a search node, a broker and two replicas of each service of an earlier version. The replicas are
replaced by those of this checkout one after the other, in the order of docs/how-to/update.md, and then by the earlier
ones again, in the opposite order. The exit status is 1 if a request failed, a document was missing in a search, a
process did not end by itself with status 0, or the data differs from what was published.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kb_local.server import Server
from tests.rolling_update.code_versions import VERSION_BEFORE, CommitNotInClone, extract_version
from tests.rolling_update.pod_times import POD_TIMES, PodTimes
from tests.rolling_update.update_run import UpdateOptions, UpdateResult, run_update

START_TIMEOUT_S = 900.0
FAULTS = {
    "no-pre-stop": "SIGTERM comes at once, while the balancers still send requests",
    "kill": "replicas are ended by SIGKILL",
}


def main() -> None:
    options = _options()
    # A busy machine takes its time, which is no finding.
    Server.start_timeout_s = START_TIMEOUT_S
    # A consumer group in which a member changes is no news here, and clients say so all the time.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="kb-update-") as temporary:
        folder = options.logs or Path(temporary)
        try:
            before = extract_version(options.before, Path(temporary) / "before")
        except CommitNotInClone as error:
            sys.exit(str(error))
        conditions = UpdateOptions(
            before,
            run_s=options.run_seconds,
            steady_s=options.steady_seconds,
            times=times_with(options.fault),
            kills=options.fault == "kill",
        )
        result = asyncio.run(run_update(folder.resolve(), conditions, seed=options.seed))
    if options.json is not None:
        figures = {"before": before.name, "seed": options.seed, "fault": options.fault, **asdict(result)}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    print("\n".join(report(result)))  # noqa: T201  # its answer
    sys.exit(1 if result.problems else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rolling_update", description=__doc__)
    parser.add_argument("--from", dest="before", default=VERSION_BEFORE, metavar="COMMIT", help="the earlier version")
    parser.add_argument("--seed", type=int, default=1, help="of the pauses between calls and of the changes")
    parser.add_argument(
        "--steady-seconds", type=float, default=10, help="of load before, between and after the updates"
    )
    parser.add_argument("--run-seconds", type=float, default=12, help="that the chat model takes for an answer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for all figures")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="folder for data and logs of all processes; kept")
    planted = "; ".join(f"{name}: {what}" for name, what in FAULTS.items())
    parser.add_argument("--fault", choices=FAULTS, help=f"plant a fault, which must be noticed ({planted})")
    return parser.parse_args()


def times_with(fault: str | None) -> Mapping[str, PodTimes]:
    """Return the times of all pods, with the fault if it is one of them."""
    if fault != "no-pre-stop":
        return POD_TIMES
    return {package: replace(times, pre_stop_s=0) for package, times in POD_TIMES.items()}


def report(result: UpdateResult) -> list[str]:
    """Return the lines that a reader needs: what callers saw, how soon texts were found, and what was wrong."""
    ended_s = [each.took_s for each in result.ended]
    return [
        f"{'phase':40} seconds",
        *(f"{phase:40} {seconds:7.1f}" for phase, seconds in result.phases.items()),
        f"{'calls':40} number  failed  median s   99 % s  worst s  longest pause s",
        *(_line(kind, figures) for kind, figures in result.calls.items()),
        f"{'time until a new text was found':40}  texts  median s  worst s",
        *(
            f"{phase:40} {figures['texts']:6} {figures['median_s']:9.2f} {figures['worst_s']:8.2f}"
            for phase, figures in result.searchable.items()
        ),
        f"{len(ended_s)} processes ended, the slowest {max(ended_s, default=0):.1f} s after SIGTERM",
        *(f"PROBLEM: {problem}" for problem in result.problems),
        f"{len(result.problems)} problems",
    ]


def _line(kind: str, figures: Mapping[str, Any]) -> str:
    times = f"{figures['median_s']:9.3f} {figures['p99_s']:8.3f} {figures['worst_s']:8.3f}"
    return f"{kind:40} {figures['calls']:6} {figures['failed']:7} {times} {figures['longest_pause_s']:16.1f}"


if __name__ == "__main__":
    main()
