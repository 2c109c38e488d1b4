"""`python -m tests.kafka_cluster`: run a cluster of Apache Kafka until Ctrl-C, or for as long as a command runs.

    python -m tests.kafka_cluster --brokers 3
    python -m tests.kafka_cluster --brokers 3 -- pytest tests/e2e

The command finds the address of the cluster in KB_TEST_KAFKA. With --secured that is SASL_SSL, and each service logs in
as a principal of its own.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kb_local.errors import LocalStackError
from tests.backend import KAFKA
from tests.kafka_access import ADMIN, FOLDER, KafkaAccess
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.server_properties import USERS, Listener, password_of


def main() -> None:
    options = _options()
    try:
        sys.exit(asyncio.run(_run(options.brokers, options.command, secured=options.secured)))
    except LocalStackError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka_cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=3)
    parser.add_argument("--secured", action="store_true", help="SASL_SSL, and one principal a service")
    parser.add_argument("command", nargs="*", help="after --; without one the cluster runs until Ctrl-C")
    return parser.parse_args()


async def _run(brokers: int, command: Sequence[str], *, secured: bool) -> int:
    """Return the exit status of the command."""
    with tempfile.TemporaryDirectory(prefix="kb-kafka-") as folder:
        async with KafkaBrokers(Path(folder) / "kafka", brokers=brokers) as cluster:
            found = _secured(cluster, Path(folder) / "principals") if secured else {KAFKA: cluster.bootstrap()}
            for name, value in found.items():
                print(f"{name}={value}", flush=True)  # noqa: T201  # its answer
            if not command:
                await asyncio.Event().wait()
            return await _execute(command, found)


def _secured(cluster: KafkaBrokers, folder: Path) -> dict[str, str]:
    passwords = [(user, password_of(user)) for user in USERS]
    access = KafkaAccess.write(folder, ca=cluster.authority.certificate, admin=cluster.bootstrap(), passwords=passwords)
    return {KAFKA: cluster.bootstrap(Listener.SASL_SSL), FOLDER: str(access.folder), ADMIN: access.admin}


async def _execute(command: Sequence[str], found: Mapping[str, str]) -> int:
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **found})
    return await process.wait()


if __name__ == "__main__":
    main()
