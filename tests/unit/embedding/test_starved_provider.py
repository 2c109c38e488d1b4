import asyncio
import time
from typing import Any

import pytest

from kb_shared.embedding import provider
from kb_shared.embedding.models import ModelCatalogue
from kb_shared.embedding.provider import Provider
from kb_shared.errors import ProviderUnavailable, TimedOut


async def never(**_: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("blocked_for_s", "error"), [(0.0, ProviderUnavailable), (0.4, TimedOut)])
async def test_a_deadline_that_a_process_without_cpu_notices_late_is_not_put_down_to_the_provider(
    blocked_for_s: float, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelCatalogue({}, local_models_api_base="http://127.0.0.1:9/v1", environment={}).get("hash-16")
    monkeypatch.setattr("kb_shared.embedding.provider.litellm.aembedding", never)
    monkeypatch.setattr(provider, "STARVED_AFTER_S", 0.2)
    asyncio.get_running_loop().call_later(0.05, time.sleep, blocked_for_s)
    with pytest.raises(error):
        await Provider(timeout_s=0.1).embed(["text"], model=model, dimensions=16, input_type="document")
