"""The demo on a machine that has much else to do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kb_client.events import EventPublisher
from kb_local import progress_deadline
from kb_local.demo import scenario as scenario_module
from kb_local.demo.api import NO_PROGRESS_TIMEOUT_S, Api, DemoFailed
from kb_local.demo.figures import Figures
from kb_local.demo.output import DemoOutput
from kb_local.demo.scenario import DemoKnowledgeBases, DemoScenario
from kb_local.stack import Stack
from kb_shared.kafka_connection.connection import KafkaConnection

NOWHERE = "127.0.0.1:1"
BASES = DemoKnowledgeBases("permissive", "network")


class SlowSystem(Api):
    """Tells one count of documents after the other, with a long while in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, counts: Sequence[int], *, pause_s: float) -> None:
        super().__init__("http://127.0.0.1:1", "local", api_key="key", logs=Path())
        self.looks = 0
        self._counts = counts
        self._pause_s = pause_s
        monkeypatch.setattr(scenario_module, "POLL_INTERVAL_S", 0)
        monkeypatch.setattr(progress_deadline, "monotonic", lambda: self.looks * self._pause_s)

    async def knowledge_base(self, kb_id: str) -> dict[str, Any]:
        if kb_id != BASES.permissive:
            return {"document_count": 0}
        self.looks += 1
        return {"document_count": self._counts[min(self.looks, len(self._counts)) - 1]}

    async def failed_documents(self, kb_id: str) -> int:
        return 0


async def wait_for(documents: int, api: SlowSystem, folder: Path) -> None:
    stack = Stack(folder, kafka=NOWHERE, models_api_base="http://127.0.0.1:1/v1")
    events = EventPublisher(KafkaConnection.from_environment({"KB_KAFKA": NOWHERE}), source="/demo")
    scenario = DemoScenario(stack, api, events=events, output=DemoOutput(as_json=True), figures=Figures())
    await scenario.wait_until_indexed({BASES.permissive: documents, BASES.network: 0})


async def test_the_demo_waits_as_long_as_documents_are_indexed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = SlowSystem(monkeypatch, range(20), pause_s=NO_PROGRESS_TIMEOUT_S * 0.9)
    await wait_for(19, slow, tmp_path)
    assert slow.looks == 20


async def test_the_demo_ends_when_no_further_document_is_indexed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stuck = SlowSystem(monkeypatch, [1, 2, 2], pause_s=NO_PROGRESS_TIMEOUT_S * 0.6)
    with pytest.raises(DemoFailed, match="no further document was indexed for 180 s"):
        await wait_for(19, stuck, tmp_path)
    assert stuck.looks == 4
