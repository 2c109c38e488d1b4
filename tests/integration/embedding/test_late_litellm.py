"""litellm is imported by the first call that needs it, and what it knows of models is read without it."""

import subprocess
import sys

import pytest

from kb_shared.chat.provider import bundled_chat_models
from kb_shared.embedding.provider import bundled_models
from kb_shared.providers.late_litellm import describe_models, load_litellm, loaded_litellm

SERVICES = ("kb_api", "kb_indexer", "kb_search", "kb_knowledge", "kb_knowledge.runner")


@pytest.mark.parametrize("mode", ["chat", "embedding"])
async def test_the_file_of_models_says_what_litellm_says(mode: str) -> None:
    litellm = (await load_litellm()).litellm
    known = {name: each for name, each in litellm.model_cost.items() if each.get("mode") == mode}
    assert describe_models(mode) == known
    assert bundled_models()["text-embedding-3-small"].dimensions == 1536
    assert bundled_chat_models()["gpt-4o-mini"].takes_schema


async def test_what_was_imported_is_not_imported_again() -> None:
    assert await load_litellm() is await load_litellm() is loaded_litellm()


def test_services_become_ready_without_litellm() -> None:
    imports = "; ".join(f"import {service}.__main__; print('litellm' in sys.modules)" for service in SERVICES)
    ended = subprocess.run([sys.executable, "-c", f"import sys; {imports}"], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["False"] * len(SERVICES)
