"""`python -m tests.chaos --seed N`: runs seeds of chaos and prints which of them found something.

Results are appended to a file, a line of JSON a seed; a seed that is green there already is skipped, so that a long
row of seeds can be interrupted and taken up again.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.python_server import ModelServerProcess
from kb_local.replica_set import ReplicaSet
from kb_local.server import Server
from kb_local.wanted_services import ALL_SERVICES
from kb_local.zygote import PRELOADED, Zygote
from tests.chaos.availability import AvailabilitySummary
from tests.chaos.chaos_system import ChaosServers
from tests.chaos.cluster_faults import Clusters
from tests.chaos.run import Verdict, run
from tests.kafka_cluster.cluster import KafkaBrokers

SEED_TIMEOUT_S = 1200.0
START_TIMEOUT_S = 900.0
TRANSACTION_LIFETIME_S = 5
SLOW_TRANSACTION_LIFETIME_S = 15
"""With little CPU: what the local stack has."""
ELECTION_TIMEOUT_MS = 4000
"""Less than MongoDB's ten seconds: more happens in a run."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions under which a seed runs; a result holds for these only."""

    seconds: float
    replicas: int
    reconciler: bool
    brokers: int = 0
    """Number of brokers of Apache Kafka; 0: a local broker."""
    members: int = 1
    """Number of members of the replica set."""
    cpu_share: float | None = None
    """Share of a CPU for each indexer and each mongod."""
    restore_midway: bool = False

    def arguments(self, seed: int) -> str:
        servers = f" --brokers {self.brokers} --members {self.members}" if self.brokers or self.members > 1 else ""
        without = "" if self.reconciler else " --without-reconciler"
        share = "" if self.cpu_share is None else f" --cpu-share {self.cpu_share:g}"
        restore = " --restore-midway" if self.restore_midway else ""
        return f"--seed {seed} --seconds {self.seconds:g} --replicas {self.replicas}{servers}{share}{without}{restore}"


def main() -> None:
    options = _options()
    # A broker that is away is no news here, and its client says so all the time.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    reconciler = not options.without_reconciler
    conditions = Conditions(
        options.seconds,
        options.replicas,
        reconciler,
        options.brokers,
        options.members,
        options.cpu_share,
        options.restore_midway,
    )
    known = find_green_seeds(options.results, conditions)
    missing = [seed for seed in options.seeds or [options.seed] if seed not in known]
    runs = Runs(iter(missing), conditions, options.results, options.logs)
    asyncio.run(runs.at_once(options.at_once))
    sys.exit(1 if runs.found else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int)
    which.add_argument("--seeds", type=_range, metavar="A-B", help="from A to B, both included")
    parser.add_argument("--seconds", type=float, default=20, help="of chaos; healing and looking come on top")
    parser.add_argument("--replicas", type=int, default=2, help="indexers")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=0, help="of Apache Kafka, not the local broker")
    parser.add_argument("--members", type=int, choices=(1, 3), default=1, help="of the replica set")
    parser.add_argument(
        "--cpu-share",
        type=_share,
        metavar="SHARE",
        help="of a CPU (0.1: a tenth), which each indexer and each mongod is held to",
    )
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="seeds, each with servers of its own")
    parser.add_argument("--results", type=Path, help="file of JSON lines; what is green in it is skipped")
    parser.add_argument("--logs", type=Path, help="folder for the logs of all processes, by seed")
    parser.add_argument(
        "--restore-midway",
        action="store_true",
        help="kill everything in the middle, restore a backup that was made under load, and continue there",
    )
    parser.add_argument("--without-reconciler", action="store_true", help="so that it hides nothing")
    return parser.parse_args()


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("more than 0 and at most 1")
    return share


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last) + 1)


@dataclass(slots=True)
class Runs:
    """A queue of seeds; each is run by the next free worker."""

    missing: Iterator[int]
    conditions: Conditions
    results: Path | None
    logs: Path | None
    found: int = 0
    """Count of those that found something."""

    async def at_once(self, number: int) -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(number):
                group.create_task(self._run_missing(f"servers-{n}"))

    async def _run_missing(self, name: str) -> None:
        with tempfile.TemporaryDirectory(prefix="kb-chaos-") as folder:
            logs = self.logs or Path(folder)
            async with shared_servers(
                logs / name,
                Path(folder),
                brokers=self.conditions.brokers,
                members=self.conditions.members,
                cpu_share=self.conditions.cpu_share,
            ) as servers:
                for seed in self.missing:
                    verdict = await judge(servers, logs / f"seed-{seed}", seed, self.conditions)
                    self.found += bool(verdict.problems)
                    _print_verdict(seed, self.conditions, verdict)
                    if self.results is not None:
                        record(self.results, seed, self.conditions, verdict)


async def judge(servers: ChaosServers, folder: Path, seed: int, conditions: Conditions) -> Verdict:
    """Run a seed; what breaks the run itself is a finding, too."""
    try:
        async with asyncio.timeout(SEED_TIMEOUT_S / (conditions.cpu_share or 1)):
            return await run(
                servers,
                folder,
                seed,
                seconds=conditions.seconds,
                replicas=conditions.replicas,
                reconciler=conditions.reconciler,
                restore_midway=conditions.restore_midway,
            )
    except Exception:  # noqa: BLE001  # the other seeds are run all the same
        return Verdict([traceback.format_exc()], reads=0, refused_reads=0, stuck=False, took_s=0)


@asynccontextmanager
async def shared_servers(
    logs: Path, data: Path, mutant: str = "", *, brokers: int = 0, members: int = 1, cpu_share: float | None = None
) -> AsyncIterator[ChaosServers]:
    """Start what runs share.

    Args:
        logs: folder for the logs.
        data: folder for everything else.
        mutant: which of `tests.chaos.mutation` the services are to be; none by default.
        brokers: of Apache Kafka; 0: each run has a local broker.
        members: of the replica set.
        cpu_share: of a CPU, for each indexer and each mongod.
    """
    # Of all servers of this process: on a busy machine they take their time, which is no finding.
    Server.start_timeout_s = START_TIMEOUT_S
    services = [f"{package}.bootstrap" for package in ALL_SERVICES]
    models = ModelServerProcess(port=free_port(), log=logs / "model-server.log")
    zygote = Zygote(
        log=logs / "zygote.log",
        preloaded=(*PRELOADED, *services, *(["tests.chaos.mutation"] if mutant else [])),
        env={"CHAOS_MUTANT": mutant} if mutant else {},
    )
    async with AsyncExitStack() as started:
        for server in (models, zygote):
            started.push_async_callback(server.stop)
            await server.start()
        lifetime_s = TRANSACTION_LIFETIME_S if cpu_share is None else SLOW_TRANSACTION_LIFETIME_S
        mongo_uri, mongods, replica_set = await _start_mongo(started, logs, data, members, lifetime_s)
        kafka = (
            await started.enter_async_context(KafkaBrokers(data / "kafka", brokers=brokers, logs=logs))
            if brokers
            else None
        )
        yield ChaosServers(mongo_uri, models.api_base, zygote, Clusters(kafka, replica_set), mongods, cpu_share)


async def _start_mongo(
    started: AsyncExitStack, logs: Path, data: Path, members: int, lifetime_s: int
) -> tuple[str, Sequence[Server], ReplicaSet | None]:
    if members > 1:
        replica_set = await started.enter_async_context(
            ReplicaSet(
                data / "members",
                size=members,
                election_timeout_ms=ELECTION_TIMEOUT_MS,
                transaction_lifetime_s=lifetime_s,
            )
        )
        return replica_set.uri, replica_set.members, replica_set
    mongod = Mongod(data / "mongo", port=free_port(), log=logs / "mongod.log", transaction_lifetime_s=lifetime_s)
    started.push_async_callback(mongod.stop)
    await mongod.start()
    return mongod.uri, [mongod], None


def find_green_seeds(results: Path | None, conditions: Conditions) -> set[int]:
    """Seeds that found nothing under these conditions."""
    if results is None or not results.exists():
        return set()
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {line["seed"] for line in lines if line.items() >= asdict(conditions).items() and not line["problems"]}


def record(results: Path, seed: int, conditions: Conditions, verdict: Verdict) -> None:
    with results.open("a") as file:
        file.write(json.dumps({"seed": seed, **asdict(conditions), **asdict(verdict)}) + "\n")


def _print_verdict(seed: int, conditions: Conditions, verdict: Verdict) -> None:
    outcome = "FOUND SOMETHING" if verdict.problems else "green"
    print(f"seed {seed}: {outcome} ({verdict.took_s:.0f} s, {verdict.reads} reads)", flush=True)  # noqa: T201  # its answer
    if conditions.brokers or conditions.members > 1:
        seen = AvailabilitySummary(verdict.answers, verdict.gaps_s)
        print("\n".join(f"  {line}" for line in seen.lines()), flush=True)  # noqa: T201  # its answer
    if verdict.problems:
        again = f"python -m tests.chaos {conditions.arguments(seed)}"
        print("\n".join([*(f"  {each}" for each in verdict.problems), f"  again: {again}"]), flush=True)  # noqa: T201  # its answer


if __name__ == "__main__":
    main()
