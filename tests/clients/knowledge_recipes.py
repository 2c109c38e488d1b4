"""Recipes: knowledge of an entity in a plain function, in LangGraph and in pydantic-ai.

Each takes a `KnowledgeProvider`, whatever its stores are.
"""

from collections.abc import Callable
from typing import Final, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic_ai import Agent, RunContext
from pydantic_ai.models import Model

from kb_client.knowledge import KnowledgeProvider, fill_template

TEMPLATE: Final = "{{ user_profile }}\n\n{{ instructions }}\n\n{{ context }}"
CompleteText = Callable[[str], str]
"""Function that sends a prompt to a model and returns its answer."""


def answer_with_knowledge(question: str, provider: KnowledgeProvider, *, complete: CompleteText) -> str:
    """Answer with any client of a model."""
    knowledge = fill_template(TEMPLATE, provider(question))
    return complete(f"{knowledge}\n\nUser request: {question}")


class ConversationState(TypedDict, total=False):
    question: str
    knowledge: str
    answer: str


def build_graph(
    provider: KnowledgeProvider, complete: CompleteText
) -> "CompiledStateGraph[ConversationState, None, ConversationState, ConversationState]":
    """Build a graph of LangGraph with a node that retrieves before the node that answers."""

    def retrieve(state: ConversationState) -> ConversationState:
        return {"knowledge": fill_template(TEMPLATE, provider(state["question"]))}

    def answer(state: ConversationState) -> ConversationState:
        return {"answer": complete(f"{state['knowledge']}\n\nUser request: {state['question']}")}

    graph = StateGraph(ConversationState)
    graph.add_node("retrieve", retrieve)
    graph.add_node("answer", answer)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "answer")
    graph.add_edge("answer", END)
    return graph.compile()


def build_agent(model: Model) -> Agent[KnowledgeProvider, str]:
    """Build an agent of pydantic-ai whose instructions contain what is known, for each question."""

    def describe_knowledge(context: RunContext[KnowledgeProvider]) -> str:
        return fill_template(TEMPLATE, context.deps(str(context.prompt)))

    return Agent(model, deps_type=KnowledgeProvider, instructions=describe_knowledge)
