"""`python -m benchmarks.rate_limit`: many replicas on one limit, against a real mongod."""

import argparse
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import command
from benchmarks.rate_limit.replicas import spend_with_replicas
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_shared.mongo.database import connect
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.settings import CommonSettings


def main() -> None:
    parser = command.parser("rate_limit", __doc__)
    parser.add_argument("--replicas", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--requests-per-minute", type=int, default=3_000)
    parser.add_argument("--tokens-per-minute", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=200, help="a request")
    parser.add_argument("--waiters", type=int, default=16, help="a replica")
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
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
    return asdict(spending)


if __name__ == "__main__":
    main()
