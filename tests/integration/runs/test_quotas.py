"""Prompts, agents and conversations have a limit that says how it is raised."""

import pytest

from kb_local.python_server import ModelServerProcess
from kb_search.settings import SearchSettings
from tests.integration.runs.conftest import Author

DEMO = "demo-extractive"


@pytest.fixture
def settings(model_server: ModelServerProcess) -> SearchSettings:
    return SearchSettings(
        local_models_api_base=model_server.api_base, chat_model=DEMO, max_prompts=2, max_agents=2, max_threads=2
    )


@pytest.mark.parametrize(
    ("path", "body", "setting"),
    [
        ("/prompts", {"name": "P", "content": "What?"}, "KB_MAX_PROMPTS"),
        ("/agents", {"name": "A"}, "KB_MAX_AGENTS"),
        ("/threads", {"title": "T"}, "KB_MAX_THREADS"),
    ],
)
async def test_beyond_the_limit_one_has_to_be_deleted_first(
    author: Author, path: str, body: dict[str, str], setting: str
) -> None:
    made = [await author.make(path, **body) for _ in range(2)]
    answer = await author.ask("POST", path, body)
    refusal = answer.json()
    assert (answer.status_code, refusal["type"]) == (409, "quota-exceeded")
    assert (refusal["limit"], refusal["setting"]) == (2, setting)
    assert setting in refusal["detail"]
    assert (await author.ask("GET", path)).json()["total_count"] == 2
    id_field = f"{path[1:-1]}_id"
    assert (await author.ask("DELETE", f"{path}/{made[0][id_field]}")).status_code == 200
    await author.make(path, **body)
