import base64
import warnings
from typing import Any

import httpx
import numpy as np
import pytest

from kb_local.model_server.hash_model import vector_of
from kb_local.python_server import ModelServerProcess

# Its own: at the first call, and pydantic's about its answers.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def litellm() -> Any:
    """litellm, kept from fetching its list of prices and from printing."""
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        environment.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        warnings.simplefilter("ignore")
        import litellm

    litellm.suppress_debug_info = True
    return litellm


@pytest.mark.parametrize(
    ("model", "dimensions"), [("hash-64", 64), ("all-MiniLM-L6-v2", 384), ("use-multilingual-v3", 512)]
)
async def test_litellm_reads_our_answers(
    http: httpx.AsyncClient, litellm: Any, model_server: ModelServerProcess, model: str, dimensions: int
) -> None:
    answer = await litellm.aembedding(
        model=f"hosted_vllm/{model}",
        input=["one", "two"],
        api_base=model_server.api_base,
        api_key="none",
        encoding_format="base64",
    )

    vectors = [np.frombuffer(base64.b64decode(entry["embedding"]), dtype="<f4") for entry in answer.data]
    assert [len(vector) for vector in vectors] == [dimensions, dimensions]
    assert answer.usage.prompt_tokens > 0
    if model == "hash-64":
        assert np.array_equal(vectors[1], vector_of("two", dimensions=64))


async def test_litellm_recognises_our_faults(
    http: httpx.AsyncClient, litellm: Any, model_server: ModelServerProcess
) -> None:
    expected = [
        ({"status": 429, "retry_after_s": 7}, litellm.RateLimitError),
        ({"status": 401}, litellm.AuthenticationError),
        ({"status": 413}, litellm.APIError),
        ({"status": 500}, litellm.InternalServerError),
        ({"status": 503}, litellm.ServiceUnavailableError),
        ({"kind": "context_length"}, litellm.ContextWindowExceededError),
    ]
    for fault, error in expected:
        await http.put("/admin/hash", json={"faults": [fault]})
        with pytest.raises(error):
            await litellm.aembedding(
                model="hosted_vllm/hash-64", input=["a"], api_base=model_server.api_base, api_key="none"
            )
