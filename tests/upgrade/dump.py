"""`python -m tests.upgrade.dump NAME`: fill a running system of any version, and write its data for the upgrade tests.

The system is one that `kb up` has just started in an empty folder, with `KB_EMBEDDING_MODEL=hash-64`.
"""

import argparse
import asyncio
import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
from pymongo import AsyncMongoClient

from kb_client.events import EventPublisher
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.e2e.kafka_log import KafkaLog
from tests.upgrade import stored_dump
from tests.upgrade.contents import SystemToFill, fill

DUMPS: Final = Path(__file__).parent / "dumps"
EXPECTED: Final = "expected.json"
DATABASE: Final = "kb"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade.dump", description=__doc__)
    parser.add_argument("name", metavar="NAME", help="name of the dump: the version or commit of the system")
    parser.add_argument("--home", type=Path, default=Path(".kb"), help="folder of the running system (default: .kb)")
    options = parser.parse_args()
    folder = DUMPS / options.name
    if folder.exists():
        sys.exit(f"{folder} exists: committed dumps are never written again; choose another name")
    try:
        state = json.loads((options.home / "state.json").read_text())
        secrets = json.loads((options.home / "secrets.json").read_text())
    except OSError as error:
        sys.exit(f"{options.home} is not the folder of a running system ({error.strerror}): start one with kb up")
    try:
        asyncio.run(_dump(folder, state, secrets))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    sys.stdout.write(f"wrote {folder}: {size / 1000:.0f} kB\n")


def read_expected(folder: Path) -> dict[str, Any]:
    """Return what the dump in `folder` contains, as the system that it was written from described it."""
    expected: dict[str, Any] = json.loads((folder / EXPECTED).read_text())
    return expected


async def _dump(folder: Path, state: dict[str, Any], secrets: dict[str, str]) -> None:
    kafka = f"127.0.0.1:{state['ports']['broker']}"
    async with (
        httpx.AsyncClient(
            base_url=f"{state['base_url']}/v0/orgs/{secrets['organization_id']}",
            headers={"Authorization": f"Bearer {secrets['api_key']}"},
            timeout=60,
            trust_env=False,
        ) as http,
        EventPublisher(kafka, source="/tests/upgrade", idempotence=False) as events,
    ):
        system = SystemToFill(http, events, KafkaLog(KafkaConnection(kafka), ""), secrets["organization_id"])
        expected = await fill(system)
    uri = f"mongodb://127.0.0.1:{state['ports']['mongod']}/?directConnection=true"
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        await stored_dump.write(client[DATABASE], folder / DATABASE)
    written = {"written_at": datetime.now(UTC).isoformat(), "secrets": secrets, **expected}
    (folder / EXPECTED).write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
