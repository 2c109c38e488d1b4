"""Puts the messages of a conversation into a form that chat templates and servers take."""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from kb_shared.chat.answers.thought_fields import THOUGHT_FIELDS
from kb_shared.chat.completion import Message
from kb_shared.providers.refused_options import NULL_CONTENT, ROLES, THOUGHTS

_BETWEEN: Final = "\n\n"


def outgoing_messages(messages: Sequence[Message], *, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the messages as they are sent.

    Neighbouring messages are joined, and arguments of calls are JSON.

    Args:
        messages: of the conversation.
        without: what the server refuses: `ROLES`, `THOUGHTS`, `NULL_CONTENT`.
    """
    sent = [_outgoing(message, without) for message in messages]
    if ROLES in without:
        sent = _plain_roles(sent)
    return join_neighbours(sent)


def join_neighbours(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Join neighbouring texts of one role, and leave out empty ones: many models refuse both."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if _is_text(message) and not str(message.get("content") or "").strip():
            continue
        before = joined[-1] if joined else None
        if before is not None and _is_text(before) and _is_text(message) and before["role"] == message["role"]:
            joined[-1] = before | {"content": _BETWEEN.join([before["content"], message["content"]])}
        else:
            joined.append(dict(message))
    return joined


def options_of_messages(messages: Sequence[Message]) -> set[str]:
    """Return what of the messages a server may refuse."""
    found = set()
    if any(message["role"] in ("system", "tool") for message in messages):
        found.add(ROLES)
    if any(message.keys() & THOUGHT_FIELDS or isinstance(message.get("content"), list) for message in messages):
        found.add(THOUGHTS)
    if any(message.get("content") is None for message in messages):
        found.add(NULL_CONTENT)
    return found


def _is_text(message: Message) -> bool:
    is_text = message.get("content") is None or isinstance(message["content"], str)
    return message["role"] in ("system", "user", "assistant") and is_text and not message.get("tool_calls")


def _outgoing(message: Message, without: Collection[str]) -> dict[str, Any]:
    sent = dict(message)
    if THOUGHTS in without:
        sent = {name: value for name, value in sent.items() if name not in THOUGHT_FIELDS}
        if isinstance(sent.get("content"), list):
            sent["content"] = "".join(part.get("text") or "" for part in sent["content"] if part.get("type") == "text")
    sent.setdefault("content", "")
    if sent["content"] is None and NULL_CONTENT in without:
        sent["content"] = ""
    if calls := sent.get("tool_calls"):
        sent["tool_calls"] = [call | {"function": _sent_function(call["function"])} for call in calls]
    return sent


def _sent_function(function: Message) -> dict[str, Any]:
    """Return a function whose arguments are JSON: servers parse them for the template, and fail if they can't."""
    arguments = function["arguments"]
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    if is_object:
        return dict(function)
    return {**function, "arguments": json.dumps({"written": arguments} if arguments.strip() else {})}


def _plain_roles(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages as a conversation of user and assistant alone, which begins with the user."""
    names: dict[str, str] = {}
    plain: list[dict[str, Any]] = []
    for message in messages:
        role, content = message["role"], message.get("content") or ""
        if role == "assistant" and message.get("tool_calls"):
            functions = [call["function"] for call in message["tool_calls"]]
            names |= {call["id"]: call["function"]["name"] for call in message["tool_calls"]}
            written = [
                f'{{"name": {json.dumps(each["name"])}, "arguments": {each["arguments"]}}}' for each in functions
            ]
            text = content if isinstance(content, str) else ""
            plain.append({"role": "assistant", "content": "\n".join([*([text] if text else []), *written])})
        elif role == "tool":
            name = names.get(message.get("tool_call_id", ""), "the tool")
            plain.append({"role": "user", "content": f"Result of {name}:\n{content}"})
        else:
            plain.append({"role": "user" if role == "system" else role, "content": content})
    return plain
