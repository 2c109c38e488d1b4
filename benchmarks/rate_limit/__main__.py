"""`python -m benchmarks.rate_limit`: many replicas on one limit, against a real mongod."""

import argparse
import asyncio
import json
import tempfile
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.rate_limit.replicas import spend_with_replicas
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_shared.mongo.database import connect
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.settings import CommonSettings


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="kb-benchmark-") as folder:
        figures = asyncio.run(_run(Path(folder), options))
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name}: {value}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rate_limit", description=__doc__)
    parser.add_argument("--replicas", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--requests-per-minute", type=int, default=3_000)
    parser.add_argument("--tokens-per-minute", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=200, help="a request")
    parser.add_argument("--waiters", type=int, default=16, help="a replica")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def _run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    bucket = Bucket("benchmark", "model/m", options.requests_per_minute, options.tokens_per_minute, closable=True)
    mongod = Mongod(folder / "data", port=free_port(), log=folder / "mongod.log")
    await mongod.start()
    try:
        async with AsyncExitStack() as clients:
            replicas = [connect(CommonSettings(mongo_uri=mongod.uri)) for _ in range(options.replicas)]
            for database in replicas:
                clients.push_async_callback(database.client.close)
            spending = await spend_with_replicas(
                replicas, bucket, seconds=options.seconds, waiters=options.waiters, tokens=options.tokens
            )
    finally:
        await mongod.stop()
    return {"options": {name: value for name, value in vars(options).items() if name != "json"}, **asdict(spending)}


if __name__ == "__main__":
    main()
