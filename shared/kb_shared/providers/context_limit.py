"""Reads what a server says of a request that is longer than the context of its model.

The status, or a code, has said that the request is refused. The words only say why: they decide what a person reads,
and whether the request is sent once more with room for a shorter answer. Nothing of them is passed on but numbers.
"""

from dataclasses import dataclass
from typing import Final

import regex

from kb_shared.providers.provider_errors import TOO_LONG_CODES, Failure, Meaning

_TOO_LONG: Final = regex.compile(
    r"context[ _-]?(?:length|window|size|limit)|maximum context|too many (?:input )?tokens|token count"
    r"|model token limit|input tokens exceed|current length is"
    r"|(?:prompt|input) (?:\([\d,]+ tokens\) )?is too long|prompt exceeds max|prompt contains [\d,]+ tokens"
    r"|maximum (?:prompt|input|sequence) length|exceeds the maximum number of (?:input )?tokens|range of input length"
    r"|max_new_tokens. must be <=|inputs. must have less than|max_tokens must be at least 1, got -"
    r"|reduce the length of (?:the|your) (?:messages|prompt|input)",
    regex.IGNORECASE,
)
_N: Final = r"(\d[\d,]*)"
_PROMPT: Final = regex.compile(
    rf"\({_N} (?:tokens )?(?:in|of|from) (?:the )?(?:messages|prompt|input|text)"
    rf"|(?:passed|has|and) {_N} input tokens|{_N} tokens from the input|context limit: {_N} \+|too long: {_N}"
    rf"|token count (?:\(|is |of ){_N}|(?:request|input|prompt|tokens) \({_N}\)?(?: tokens\))?"
    rf'|n_prompt_tokens"?: ?{_N}|given: {_N}|(?:prompt|request) contains {_N}|the first {_N} tokens'
    rf"|received {_N}|resulted in {_N}|length is {_N} while",
    regex.IGNORECASE,
)
_CONTEXT: Final = regex.compile(
    rf"context length(?: is| of|:)? ?(?:only )?\(?{_N}|{_N} maximum context|\+ [\d,]+ > {_N}|> {_N} maximum"
    rf'|tokens allowed \(?{_N}|supports (?:only )?up to {_N}|context size \({_N}|n_ctx"?: ?{_N}|must be <= {_N}'
    rf"|must have less than {_N}|prompt length is {_N}|cannot exceed {_N}|context window of {_N}|limit of {_N}"
    rf"|token limit: {_N}|limit is {_N}",
    regex.IGNORECASE,
)
_AT_LEAST: Final = regex.compile(r"at least [\d,]+ input tokens", regex.IGNORECASE)
_LEAST_ANSWER: Final = 256
"""Tokens of an answer that are worth a second request, if more were asked for."""


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """Length of a request that is too long, as its server counts it."""

    prompt_tokens: int | None = None
    context_tokens: int | None = None
    """Tokens of prompt and answer, or of the prompt alone, that the model takes; both None unless they are said."""
    is_counted_in_part: bool = False
    """True if the server stopped to count where prompt and answer together were too long: the prompt may fit."""

    @property
    def room(self) -> int | None:
        """Return the tokens that the prompt leaves for an answer, 0 if it does not fit; None if that is not known."""
        if self.prompt_tokens is None or self.context_tokens is None:
            return None
        return max(0, self.context_tokens - self.prompt_tokens)

    def leaves_room(self, asked: int | None) -> bool:
        """Return whether only the answer is too long, of which so many tokens were asked for, and a shorter one fits.

        One of a few tokens would only be cut.
        """
        if self.room is None:
            return self.is_counted_in_part and asked is not None
        least = _LEAST_ANSWER if asked is None else min(_LEAST_ANSWER, asked // 2 + 1)
        return least <= self.room and (asked is None or self.room < asked)

    def describe(self, model: str) -> str:
        """Return what is too long, as a part of a sentence."""
        if self.context_tokens is None:
            return f"its prompt and answer have more tokens than {model!r} takes in one request"
        takes = f"{model!r} takes {self.context_tokens:,} in one request"
        if self.room is None:
            return f"its prompt and answer have too many tokens, and {takes}"
        if self.room:
            return (
                f"its prompt has {self.prompt_tokens:,} tokens, and {takes}, which leaves {self.room:,} for an answer"
            )
        return f"its prompt has {self.prompt_tokens:,} tokens, and {takes}"


def says_too_long(said: str) -> bool:
    """Return whether the words of an error are about the length of the context."""
    return _TOO_LONG.search(said) is not None


def find_context_limit(failure: Failure, said: str) -> ContextLimit | None:
    """Return what is too long in a refused request; None if it was refused for something else."""
    if failure.meaning is not Meaning.BATCH or not (failure.code in TOO_LONG_CODES or says_too_long(said)):
        return None
    context = _number(_CONTEXT, said)
    if _AT_LEAST.search(said) is not None:
        return ContextLimit(None, context, is_counted_in_part=True)
    return ContextLimit(_number(_PROMPT, said), context)


def _number(pattern: regex.Pattern[str], said: str) -> int | None:
    found = pattern.search(said)
    digits = next((each for each in found.groups() if each), None) if found else None
    # A number with more digits counts nothing.
    return int(digits.replace(",", "")) if digits is not None and len(digits) <= 12 else None
