"""`python -m tests.replica_set`: run three mongods behind search nodes until Ctrl-C, or for as long as a command runs.

    python -m tests.replica_set
    python -m tests.replica_set -- pytest tests/e2e

The command finds the deployment in KB_TEST_MONGO_URI.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kb_local.errors import LocalStackError
from kb_local.mongod import REPLICA_SET
from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes
from tests.replica_set.conftest import FOR_TESTS


def main() -> None:
    options = _options()
    try:
        sys.exit(asyncio.run(_run(options.command)))
    except LocalStackError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.replica_set", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="*", help="after --; without one the members run until Ctrl-C")
    return parser.parse_args()


async def _run(command: Sequence[str]) -> int:
    """Return the exit status of the command."""
    with tempfile.TemporaryDirectory(prefix="kb-replica-set-") as name:
        folder = Path(name)
        async with ReplicaSet(folder / "members", **FOR_TESTS) as members:
            nodes = SearchNodes(members.addresses, set_name=REPLICA_SET, logs=folder)
            await nodes.start()
            print(f"KB_TEST_MONGO_URI={nodes.uri}\nwithout search: {members.uri}", flush=True)  # noqa: T201  # its answer
            if not command:
                await asyncio.Event().wait()
            process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "KB_TEST_MONGO_URI": nodes.uri})
            return await process.wait()


if __name__ == "__main__":
    main()
