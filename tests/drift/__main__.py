"""`python -m tests.drift`: plant drift of every kind at random, and see that it is repaired within two passes.

Exits with 1 if drift is left, if anything was deleted or changed that should not, or if a repair was charged that
embedded nothing.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

from pymongo import AsyncMongoClient

from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_shared.observability import logs
from tests.drift.lossy import lossy_replica
from tests.drift.scenario import DriftReport, run
from tests.drift.searching import document_search
from tests.indexes import create_all_indexes
from tests.integration.indexer.support import Tenant, replica


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.drift", description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000, help="number of documents (default: 10000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of what is planted where (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    logs.configure("drift", "ERROR")
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="kb-drift-") as folder:
        try:
            report = asyncio.run(_run(Path(folder), documents=options.documents, seed=options.seed))
        except* AssertionError as errors:
            sys.exit(f"seed {options.seed}: {errors.exceptions}")
    figures = {"seed": options.seed, **report.figures(), "seconds": round(monotonic() - began, 1)}
    lines = [json.dumps(figures)] if options.json else [f"{name}: {value}" for name, value in figures.items()]
    sys.stdout.write("\n".join(lines) + "\n")


async def _run(folder: Path, *, documents: int, seed: int) -> DriftReport:
    mongod = Mongod(folder / "mongod", port=free_port(), log=folder / "mongod.log")
    await mongod.start()
    search_node = SearchNodeProcess(mongod=mongod.address, port=free_port(), log=folder / "search-node.log")
    models = ModelServerProcess(port=free_port(), log=folder / "model-server.log")
    try:
        await search_node.start()
        await models.start()
        async with AsyncMongoClient[dict[str, Any]](search_node.uri, tz_aware=True, w="majority") as client:
            database = client["drift"]
            await create_all_indexes(database)
            tenant, api_base = Tenant(database), models.api_base
            async with (
                replica(database, api_base) as indexer,
                lossy_replica(database, api_base) as lossy,
                document_search(database, api_base, organization_id=tenant.organization_id) as search,
            ):
                return await run(tenant, indexer, lossy, search, documents=documents, seed=seed)
    finally:
        for server in (models, search_node, mongod):
            await server.stop()


if __name__ == "__main__":
    main()
