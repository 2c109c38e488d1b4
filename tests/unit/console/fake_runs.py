"""Runs, conversations, agents and prompts of the API that is not there."""

import json
from collections.abc import Iterable
from typing import Any, Final

import httpx
from pydantic import BaseModel

from kb_contracts.api.agents import AgentList, AgentView, AvailableKnowledgeBases
from kb_contracts.api.chat_models import ChatModelList
from kb_contracts.api.memberships import OpenedChunk
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.prompts import PromptList, PromptView
from kb_contracts.api.runs import RunList, RunSummary, RunView
from kb_contracts.api.threads import ThreadList, ThreadView, ThreadWithRuns

RUN_ID: Final = "65f1c2a3b4d5e6f708192a42"
THREAD_ID: Final = "65f1c2a3b4d5e6f708192a43"
AGENT_ID: Final = "65f1c2a3b4d5e6f708192a3f"
TOOL_ID: Final = "65f1c2a3b4d5e6f708192a41"
PROMPT_ID: Final = "65f1c2a3b4d5e6f708192a3e"
CHUNK_ID: Final = "handbook:5f2b1c9e8d7a6b4c3d2e1f00:0"
PAGES_OF_RUNS: Final = (
    "/console/orgs/acme/chat",
    f"/console/orgs/acme/chat?with=agent:{AGENT_ID}&model=gpt-4o-mini&document=handbook",
    f"/console/orgs/acme/chat/{THREAD_ID}",
    f"/console/orgs/acme/chat/{THREAD_ID}?choose=true",
    "/console/orgs/acme/chat/choices",
    f"/console/orgs/acme/chat/{THREAD_ID}/delete",
    f"/console/orgs/acme/knowledge-bases/65f1c2a3b4d5e6f708192a3b/passages/{CHUNK_ID}?document=handbook&run={RUN_ID}",
    "/console/orgs/acme/agents",
    "/console/orgs/acme/agents/new",
    f"/console/orgs/acme/agents/{AGENT_ID}",
    f"/console/orgs/acme/agents/{AGENT_ID}?thread={THREAD_ID}",
    f"/console/orgs/acme/agents/{AGENT_ID}?add=list",
    f"/console/orgs/acme/agents/{AGENT_ID}?add=65f1c2a3b4d5e6f708192a3b",
    f"/console/orgs/acme/agents/{AGENT_ID}?edit={TOOL_ID}",
    f"/console/orgs/acme/agents/{AGENT_ID}/delete",
    "/console/orgs/acme/prompts",
    "/console/orgs/acme/prompts/new",
    f"/console/orgs/acme/prompts/{PROMPT_ID}",
    f"/console/orgs/acme/prompts/{PROMPT_ID}?run={RUN_ID}",
    f"/console/orgs/acme/prompts/{PROMPT_ID}/delete",
)
_KB: Final = "/knowledge-bases/65f1c2a3b4d5e6f708192a3b"
MODELS: Final[dict[str, type[BaseModel]]] = {
    "GET /runs": RunList,
    "POST /runs": RunView,
    f"GET /runs/{RUN_ID}": RunView,
    f"POST /runs/{RUN_ID}/cancel": RunSummary,
    f"PUT /runs/{RUN_ID}/feedback": RunView,
    "GET /threads": ThreadList,
    "POST /threads": ThreadView,
    f"GET /threads/{THREAD_ID}": ThreadWithRuns,
    f"DELETE /threads/{THREAD_ID}": MessageResponse,
    "GET /chat-models": ChatModelList,
    "GET /agents": AgentList,
    "POST /agents": AgentView,
    f"GET /agents/{AGENT_ID}": AgentView,
    f"PUT /agents/{AGENT_ID}": AgentView,
    f"DELETE /agents/{AGENT_ID}": MessageResponse,
    f"POST /agents/{AGENT_ID}/knowledge-base-tools": AgentView,
    f"PATCH /agents/{AGENT_ID}/knowledge-base-tools/{TOOL_ID}": AgentView,
    f"DELETE /agents/{AGENT_ID}/tools/{TOOL_ID}": AgentView,
    f"GET /agents/{AGENT_ID}/available-knowledge-bases": AvailableKnowledgeBases,
    "GET /prompts": PromptList,
    "POST /prompts": PromptView,
    f"GET /prompts/{PROMPT_ID}": PromptView,
    f"PUT /prompts/{PROMPT_ID}": PromptView,
    f"DELETE /prompts/{PROMPT_ID}": MessageResponse,
    f"GET {_KB}/chunks/{CHUNK_ID}": OpenedChunk,
}


def connect_runs(answers: dict[str, Any]) -> None:
    """Put the run of the example into the conversation of the example, with a call of a tool."""
    run = answers[f"GET /runs/{RUN_ID}"]
    [citation] = run["citations"]
    other = {**citation, "number": 2, "chunk_id": "handbook:aa:0", "citation": "handbook:aa:0", "text": "Nothing else."}
    run["tool_calls"] = [
        {
            "call_id": "c1",
            "tool": "search_handbook",
            "arguments": '{"query": "days of leave"}',
            "passages": [citation, other],
            "omitted_count": 0,
            "problem": None,
            "from_memory": False,
            "spus": 1,
            "duration_ms": 12.5,
        }
    ]
    answers["POST /runs"] = run
    answers[f"GET /threads/{THREAD_ID}"] |= {"runs": [run], "total_count": 1}


def stream_of(events: Iterable[tuple[str, dict[str, Any]]]) -> httpx.Response:
    """Return the answer to a run whose events are streamed."""
    content = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    return httpx.Response(200, content=content.encode(), headers={"Content-Type": "text/event-stream"})


def events_of_run(answers: dict[str, Any], *texts: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a run that searches, says `texts` and finishes as the example."""
    run = answers[f"GET /runs/{RUN_ID}"]
    [call] = run["tool_calls"]
    called = {name: call[name] for name in ("call_id", "tool", "arguments")}
    return [
        ("run.started", {"run_id": RUN_ID, "model": "gpt-4o-mini"}),
        ("tool.called", called),
        ("passage", {"call_id": "c1", **call["passages"][0]}),
        ("tool.returned", call),
        *(("answer.delta", {"iteration": 2, "text": text}) for text in texts),
        ("citation", run["citations"][0]),
        ("run.finished", run),
    ]
