"""Programs with other frameworks get the knowledge of an entity into what their model reads."""

from typing import Final

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from kb_client.knowledge import KnowledgeBase, KnowledgeDataLoader, KnowledgeProvider
from kb_client.knowledge.memory_stores import open_memory_stores
from tests.clients.knowledge_recipes import answer_with_knowledge, build_agent, build_graph

QUESTION: Final = "How do I start an LES?"
KNOWN: Final = "team: aero\n\n[procedure] Initialize transient LES from converged RANS.\n\n"


@pytest.fixture
def provider() -> KnowledgeProvider:
    stores = open_memory_stores()
    KnowledgeDataLoader(*stores).load(
        {
            "metadata": {"user:alice": {"entity_type": "user", "properties": {"team": "aero"}}},
            "pieces": [
                {
                    "content": "Initialize transient LES from converged RANS.",
                    "knowledge_type": "procedure",
                    "info_type": "instructions",
                }
            ],
        }
    )
    return KnowledgeProvider(KnowledgeBase(*stores, "user:alice"))


def test_a_plain_function_sends_knowledge_and_question(provider: KnowledgeProvider) -> None:
    prompts: list[str] = []

    def complete(prompt: str) -> str:
        prompts.append(prompt)
        return "From RANS."

    assert answer_with_knowledge(QUESTION, provider, complete=complete) == "From RANS."
    assert prompts == [f"{KNOWN}\n\nUser request: {QUESTION}"]


def test_a_graph_of_langgraph_retrieves_before_it_answers(provider: KnowledgeProvider) -> None:
    state = build_graph(provider, lambda prompt: prompt.upper()).invoke({"question": QUESTION})
    assert state["knowledge"] == KNOWN
    assert state["answer"] == f"{KNOWN}\n\nUser request: {QUESTION}".upper()


def test_an_agent_of_pydantic_ai_is_instructed_with_what_is_known_for_each_question(
    provider: KnowledgeProvider,
) -> None:
    instructions: list[str | None] = []

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        request = messages[-1]
        assert isinstance(request, ModelRequest)
        instructions.append(request.instructions)
        return ModelResponse(parts=[TextPart("From RANS.")])

    agent = build_agent(FunctionModel(respond))
    assert agent.run_sync(QUESTION, deps=provider).output == "From RANS."
    assert agent.run_sync("What is for lunch?", deps=provider).output == "From RANS."
    assert instructions[0] is not None
    assert instructions[0].strip() == KNOWN.strip()
    assert "RANS" not in (instructions[1] or "")
