from itertools import chain, repeat
from typing import Any

import pytest

from kb_shared.embedding import provider
from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.provider import Provider
from kb_shared.errors import ProviderUnavailable, TimedOut


async def time_out(*_: Any, **__: Any) -> None:
    raise TimeoutError


@pytest.mark.parametrize(("noticed_after_s", "error"), [(30.1, ProviderUnavailable), (40.0, TimedOut)])
async def test_a_deadline_that_a_process_without_cpu_notices_late_is_not_put_down_to_the_provider(
    noticed_after_s: float, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelCatalogue({}, local_models_api_base="http://127.0.0.1:9/v1", environment={}).get("hash-16")
    monkeypatch.setattr("kb_shared.embedding.provider.OpenAIServers.ask", time_out)
    monkeypatch.setattr(provider, "STARVED_AFTER_S", 5.0)
    clock = chain([0.0], repeat(noticed_after_s))
    monkeypatch.setattr("kb_shared.embedding.provider.time.perf_counter", lambda: next(clock))
    with pytest.raises(error):
        await Provider(timeout_s=30.0).embed(["text"], model=model, dimensions=16, input_type="document")
