from collections.abc import Iterator

import pytest

from kb_shared.kafka import producer as module
from tests.unit.kafka.scripted_clients import Clients


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    made = Clients()
    monkeypatch.setattr(module, "producer_client", made.make)
    yield made  # noqa: PT022  # the patch must last
