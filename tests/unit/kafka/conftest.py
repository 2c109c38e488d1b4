from collections.abc import Iterator

import pytest

from kb_shared.kafka import producer as module
from kb_shared.kafka import retries
from tests.unit.kafka.scripted_clients import Clients


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    made = Clients()
    monkeypatch.setattr(module, "producer_client", made.make)
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.004)
    yield made  # noqa: PT022  # the patches must last
