"""Finds the options of a request that a server does not know, and remembers them for a while.

Here the words of an error count, since nothing else says which option it is. They decide only what is tried without:
the meaning of an error never comes from words.
"""

from collections.abc import Collection
from typing import Final

import regex

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.providers.context_limit import says_too_long
from kb_shared.providers.provider_errors import TOO_LONG_CODES, UNUSABLE_ANSWER_CODES, Failure

REMEMBERED_S: Final = 3_600.0
"""Time after which a server is asked with an option again: it may have been updated."""
WITHOUT_TOOLS_S: Final = 1.0
"""The same for tools, without which a run is worse: their refusal costs each run one request, which is not paid for."""
MAX_SERVERS: Final = 1_000
ROLES: Final = "roles"
"""Stands for messages of the system and of tools, and for two messages of one role in a row."""
THOUGHTS: Final = "thoughts"
"""Stands for the thoughts that go back to a provider."""
NULL_CONTENT: Final = "null content"
STREAM: Final = "stream"
TOOLS: Final = "tools"

_STATUSES: Final = frozenset({400, 404, 405, 415, 422, 500, 501})
_UNRELATED_CODES: Final = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "insufficient_quota",
        "model_not_found",
        "string_above_max_length",
        "invalid_prompt",
        "invalid_api_key",
        "API_KEY_INVALID",
    }
    | UNUSABLE_ANSWER_CODES
    | TOO_LONG_CODES
)
_WORDS: Final = {
    "stream_options": r"stream_options|include_usage",
    "parallel_tool_calls": r"parallel[_ ]tool",
    "tool_choice": r"tool_choice|tool choice",
    "response_format": r"response_format|json_schema|json schema|structured output|guided|grammar",
    "max_completion_tokens": r"max_(?:completion_)?tokens",
    "max_tokens": r"max_tokens",
    "temperature": r"temperature",
    "encoding_format": r"encoding_format|base64",
    "dimensions": r"\bdimensions?\b|matryoshka",
    "input_type": r"input_type",
    NULL_CONTENT: r"content.{0,60}(?:null|none|required|missing|string|empty)|(?:null|none|missing).{0,60}content",
    THOUGHTS: r"reasoning|thinking|thought",
    ROLES: r"\broles?\b|alternat|system (?:message|prompt)|tool_call_id|single tool|jinja|template",
    TOOLS: r"\btools?\b|function[_ -]?call",
    STREAM: r"stream(?:ing)?\b.{0,40}not (?:supported|available|allowed|implemented)|not support.{0,20}stream",
}
_PATTERNS: Final = {option: regex.compile(words, regex.IGNORECASE) for option, words in _WORDS.items()}
_IN_TURN: Final = (
    {"stream_options", "response_format", "parallel_tool_calls", "temperature"},
    {"encoding_format"},
    {"tools"},
)
"""Options to leave out when an error names none, one set after the other."""


def find_refused(failure: Failure, said: str, *, sent: Collection[str], may_guess: bool) -> frozenset[str]:
    """Return the options to try without after an error; none if the error is about something else.

    Args:
        failure: of the request.
        said: words of the server. They may quote the messages: a wrong guess costs one request.
        sent: options that were sent.
        may_guess: whether to try without some if the words name none: not at a server that has answered before.
    """
    if failure.status not in _STATUSES or failure.code in _UNRELATED_CODES or failure.incompatible is not None:
        return frozenset()
    if says_too_long(said):
        return frozenset()
    named = next((option for option, words in _PATTERNS.items() if option in sent and words.search(said)), None)
    if named is not None:
        return frozenset({named})
    if failure.status not in (400, 422) or not may_guess:
        return frozenset()
    return next((frozenset(options & set(sent)) for options in _IN_TURN if options & set(sent)), frozenset())


class ServerHabits:
    """Facts about servers, each with one model, by the fingerprint of both. One for a process."""

    def __init__(self) -> None:
        self._refused: BoundedCache[str, frozenset[str]] = BoundedCache(MAX_SERVERS, lifetime_s=REMEMBERED_S)
        self._take_no_tools: BoundedCache[str, bool] = BoundedCache(MAX_SERVERS, lifetime_s=WITHOUT_TOOLS_S)
        self._think_aloud: BoundedCache[str, bool] = BoundedCache(MAX_SERVERS, lifetime_s=REMEMBERED_S)

    def refused(self, server: str) -> frozenset[str]:
        """Return the options that a server does not know."""
        tools = frozenset({TOOLS}) if self._take_no_tools.find(server) else frozenset()
        return (self._refused.find(server) or frozenset()) | tools

    def has_answered(self, server: str) -> bool:
        """Return whether a server has answered to a request within the last hour."""
        return self._refused.find(server) is not None

    def note_answer(self, server: str, *, without: frozenset[str]) -> None:
        """Remember that a server has answered to a request without these options."""
        others = without - {TOOLS}
        if self._refused.find(server) != others:
            self._refused.put(server, others)
        # Not for longer because it is used meanwhile.
        if TOOLS in without and not self._take_no_tools.find(server):
            self._take_no_tools.put(server, True)

    def thinks_aloud(self, server: str) -> bool | None:
        """Return whether thoughts without their beginning come in its answers; None if that is not known."""
        return self._think_aloud.find(server)

    def note_thinks_aloud(self, server: str, thinks_aloud: bool) -> None:
        """Remember whether such thoughts came."""
        self._think_aloud.put(server, thinks_aloud or bool(self._think_aloud.find(server)))
