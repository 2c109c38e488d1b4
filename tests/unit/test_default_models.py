"""Default models are checked when a service starts, not at each question."""

import pytest

from kb_shared.chat.models import BundledChatModel, ChatCatalogue
from kb_shared.errors import Misconfigured
from kb_shared.providers.organization_keys import check_default_model

LISTED = {"gpt-4o-mini": BundledChatModel("openai", None, None, None, None, takes_schema=True)}


def check(name: str, **environment: str) -> None:
    catalogue = ChatCatalogue(LISTED, local_models_api_base=None, environment=environment)
    check_default_model("KB_CHAT_MODEL", name, catalogue)


@pytest.mark.parametrize("name", ["gpt-4o-mini", "demo-extractive", "ollama/llama3.1", "hosted_vllm/a/b", "openai/x"])
def test_a_default_model_that_somebody_may_have_is_accepted_without_a_key(name: str) -> None:
    check(name)


def test_a_plain_name_is_accepted_where_the_environment_names_the_server() -> None:
    check("llama3.1:8b", OLLAMA_API_BASE="http://127.0.0.1:11434")


@pytest.mark.parametrize("name", ["llama3.1", "gpt-4o-mni", "meta-llama/Llama-3.1-8B-Instruct", ""])
def test_a_default_model_of_no_provider_names_its_setting(name: str) -> None:
    with pytest.raises(Misconfigured, match=f"KB_CHAT_MODEL={name}: .*ollama/{name}"):
        check(name)
    two = {"OLLAMA_API_BASE": "http://a", "HOSTED_VLLM_API_BASE": "http://b"}
    with pytest.raises(Misconfigured, match=f"write ollama/{name}, hosted_vllm/{name}$"):
        check(name, **two)
