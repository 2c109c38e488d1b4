"""`python -m benchmarks.soak`: load and faults for half an hour, and whether each process stays as large as it was.

Starts the local stack with two indexers and two reconcilers, and puts a steady load on it: the number of documents
stays the same. Services are killed, mongod, the broker, search and an indexer are frozen, and the embedding
provider fails. Every five seconds memory, descriptors, sockets, threads, tasks of the event loop and series of
metrics of each process are read.

Afterwards the lag must return to zero, all documents must be stored once and in their newest text, a dry run of the
reconciler must find nothing, and no figure of a service may have grown: the slope of the second half of the run
(Theil-Sen), over its time, must be within the tolerance that is printed. The exit status is 1 otherwise.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pymongo import AsyncMongoClient

from benchmarks.indexed_corpus import folder_for
from benchmarks.load.options import add_load_options, load_shape
from benchmarks.load.sources import documents_for
from benchmarks.load.target import LoadTarget, LocalStackOptions, local_target
from benchmarks.load.workload import LoadWorkload
from benchmarks.soak.drift import find_drift
from benchmarks.soak.faults import SETTLED_FROM, SoakFaults, plan_faults
from benchmarks.soak.flatness import ABSOLUTE_TOLERANCES, FlatnessVerdict, judge_flatness
from benchmarks.soak.recount import find_differences
from benchmarks.soak.samples import ProcessSampler, to_json
from kb_local.stack import Stack
from tests.chaos.quiescence import until_quiescent
from tests.e2e.system import system

_STEADY_MIX: Final = [3.0, 3.0, 2.0, 3.0]
_PROGRESS_EVERY_S: Final = 30.0
_NOT_JUDGED: Final = frozenset({"broker", "mongod", "zygote", "model-server"})
"""The broker keeps all messages in memory, and mongod fills its cache; the others are not part of the system."""
_SHOWN_DIFFERENCES: Final = 20
_MAX_CHARACTERS: Final = 10_000


def main() -> None:
    options = _options()
    with folder_for(options.keep) as folder:
        report = asyncio.run(_run(folder, options))
    if options.json is not None:
        options.json.write_text(json.dumps(report))
    print(json.dumps({name: value for name, value in report.items() if name != "samples"}, indent=2))
    sys.exit(0 if report["passed"] else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=30,
        help="of load (default: 30); in less than ten, figures of processes that were just started still grow",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets the report with all samples")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder of the stack, which is kept with its logs")
    add_load_options(parser, searches_per_s=5, events_per_s=2)
    parser.set_defaults(event_mix=_STEADY_MIX, indexers=2, preload=300)
    return parser.parse_args()


async def _run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    local = LocalStackOptions(
        options.organizations,
        options.indexers,
        options.embed_delay_ms,
        services=("kb_api", "kb_search", "kb_reconciler", "kb_reconciler:2"),
    )
    seconds = options.minutes * 60
    async with local_target(folder, local) as target:
        assert target.stack is not None
        partitions = await target.create_knowledge_bases(
            "soak", number=options.knowledge_bases, settings={"embedding_model": options.model}
        )
        # With large documents, the size of the data would depend on which ones are there.
        sources = [each for each in documents_for(options.corpus) if len(each.text) < _MAX_CHARACTERS]
        workload = LoadWorkload(target, load_shape(options), partitions, sources, steady_at=options.preload)
        await workload.preload(options.preload)
        sampler, faults = ProcessSampler(target.stack), SoakFaults(target.stack, options.embed_delay_ms)
        background = [asyncio.create_task(each) for each in (sampler.run(), _report(workload, sampler))]
        try:
            await asyncio.gather(workload.run(seconds), faults.run(plan_faults(seconds=seconds)))
            recovered = await _recover(target, target.stack, workload, sampler)
        finally:
            for task in background:
                task.cancel()
    verdicts = _verdicts(sampler, seconds)
    growing = [f"{name}: {figure}" for name, of in verdicts.items() for figure, each in of.items() if not each.is_flat]
    return {
        "options": {name: str(value) for name, value in vars(options).items() if value is not None},
        "passed": not growing and not recovered["problems"],
        "growing": growing,
        **recovered,
        "verdicts": {name: {figure: asdict(each) for figure, each in of.items()} for name, of in verdicts.items()},
        "faults": faults.done,
        "load": workload.figures(seconds=seconds),
        "samples": {
            "processes": to_json(sampler.figures),
            "lag_records": sampler.lag_records,
            "queued_jobs": sampler.queued_jobs,
        },
    }


async def _recover(target: LoadTarget, stack: Stack, workload: LoadWorkload, sampler: ProcessSampler) -> dict[str, Any]:
    """Wait until the system is idle, and compare what is stored with what was published."""
    ended_s = sampler.now_s
    # As an upstream does with events that were not acknowledged.
    await target.events.publish_all([each.event for each in workload.unacknowledged])
    async with system(stack) as opened, AsyncMongoClient[dict[str, Any]](stack.mongod_uri, tz_aware=True) as mongo:
        try:
            await until_quiescent(opened)
        except TimeoutError as error:
            return {"problems": [f"the system did not come to rest: {error}"]}
        idle_after_s = round(sampler.now_s - ended_s, 1)
        lag = await opened.kafka.lag()
        differences = await find_differences(mongo[stack.database], workload.population)
    drift = await find_drift(target)
    problems = [f"a lag of {lag} messages"] * bool(lag) + differences[:_SHOWN_DIFFERENCES]
    problems += [f"the reconciler found {number} times {kind}" for kind, number in drift.items()]
    return {
        "problems": problems,
        "recount": {
            "documents": sum(len(workload.population.expected_members(each)) for each in workload.partitions),
            "differences": len(differences),
            "drift": drift,
            "lag_at_the_end": lag,
            "idle_after_s": idle_after_s,
            "events_published_again": len(workload.unacknowledged),
        },
    }


def _verdicts(sampler: ProcessSampler, seconds: float) -> dict[str, dict[str, FlatnessVerdict]]:
    """Judge the second half of the load, in which no first replica is killed."""
    since_s = seconds * max(0.5, SETTLED_FROM)
    verdicts: dict[str, dict[str, FlatnessVerdict]] = {}
    for name in sampler.names():
        for figure, samples in sampler.last_life(name).items():
            if samples[0][0] > since_s:
                # A process grows in its first minutes.
                continue
            # What the wait for an idle system adds is another load.
            of_load = [sample for sample in samples if sample[0] <= seconds]
            verdict = judge_flatness(of_load, since_s=since_s, absolute_tolerance=ABSOLUTE_TOLERANCES[figure])
            if verdict is not None and name not in _NOT_JUDGED:
                verdicts.setdefault(name, {})[figure] = verdict
    return verdicts


async def _report(workload: LoadWorkload, sampler: ProcessSampler) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_EVERY_S)
        queued = sampler.queued_jobs[-1][1] if sampler.queued_jobs else 0
        print(f"{sampler.now_s:5.0f} s: {workload.progress()}; {queued:g} jobs", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
