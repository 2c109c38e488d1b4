"""A whole system with Prometheus beside it, which reads all metrics every second."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kb_local.mongod import Mongod
from kb_local.monitoring import MonitoringOptions
from kb_local.monitoring_programs import CHECKOUT
from kb_local.ports import free_port
from kb_local.prometheus import Prometheus
from kb_local.stack import Stack
from kb_local.wanted_services import ALL_SERVICES
from tests.e2e.system import QUICK, SystemUnderTest, system

SECOND_INDEXER = "kb_indexer:2"
SETTINGS = {
    **QUICK,
    "KB_RECONCILE_INTERVAL_S": "1",
    "KB_RECONCILE_FULL_INTERVAL_S": "5",
    "KB_RECONCILE_GRACE_S": "1",
    "KB_CHAT_PATIENCE_S": "2",
    # The receivers of webhooks are on this machine.
    "KB_ALLOW_PRIVATE_ADDRESSES": "true",
    # So that runs of sources wait for each other.
    "KB_SOURCE_RUNS_AT_ONCE": "1",
    # Of the attack on one organization's share.
    "KB_HTTP_MAX_ACTIVE_OF_ORGANIZATION": "1",
}


@dataclass(frozen=True, slots=True)
class WatchedSystem:
    system: SystemUnderTest
    mongod: Mongod
    prometheus: Prometheus


@pytest.fixture(scope="package")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WatchedSystem]:
    folder = tmp_path_factory.mktemp("watched")
    mongod = Mongod(
        folder / "mongo", port=free_port(), log=folder / "mongod.log", parameters={"enableTestCommands": "1"}
    )
    await mongod.start()
    try:
        async with (
            Stack(
                folder / "stack",
                services=[*ALL_SERVICES, SECOND_INDEXER],
                env=SETTINGS,
                mongo_uri=mongod.uri,
                monitoring=MonitoringOptions(configs=quick_configs(folder / "observability"), interval_s=1),
            ) as stack,
            system(stack) as opened,
        ):
            assert stack.monitoring is not None
            yield WatchedSystem(opened, mongod, stack.monitoring.prometheus)
    finally:
        await mongod.stop()


def quick_configs(folder: Path) -> Path:
    """Copy the configuration, with rules that are all evaluated as often as metrics are read."""
    shutil.copytree(CHECKOUT / "observability", folder)
    for file in (folder / "prometheus" / "rules").glob("*.yml"):
        content: dict[str, Any] = yaml.safe_load(file.read_text())
        for group in content["groups"]:
            group.pop("interval", None)
        file.write_text(yaml.safe_dump(content))
    return folder
