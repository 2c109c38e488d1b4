"""Separates a model's text from what servers leave in it: thoughts, calls of tools, and marks of its chat template.

The text comes in pieces that may be cut anywhere, and what is passed on does not depend on the cuts: what could be the
beginning of such a thing waits for the next piece.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import regex

from kb_shared.chat.answers.written_calls import WrittenCall, build_beginnings, find_written_calls, is_only_markers

_TAGS: Final = (
    "think|thinking|thoughts?|thought_process|reasoning|reason|reflection|scratchpad|analysis|inner_monologue"
    "|seed:think|mm:think"
)
_WRAPPERS: Final = "answer|response|final_answer|final"
_OTHER_SPEAKERS: Final = "user|observation|system|im_user|im_system|tool_response"
_BEGINNINGS: Final = rf"""
    (?P<bare_channel>\A\s{{0,8}}analysis(?=[A-Za-z"']))
  | (?P<react>\A\s{{0,8}}Thought:(?=\s))
  | (?P<granite>\A\s{{0,8}}Here(?:'s|\ is)\ my\ thought\ process:)
  | (?P<tag>(?<![^\n>\]])[^\S\n]{{0,8}}<(?i:{_TAGS})(?:\s[^<>\n]{{0,60}})?>)
  | (?P<details><details\ type="reasoning"[^<>\n]{{0,80}}>)
  | (?P<bracket>\[THINK\])
  | (?P<triangle>◁think▷)
  | (?P<cohere><\|START_THINKING\|>)
  | (?P<thought><\|begin_of_thought\|>)
  | (?P<inner><\|inner_prefix\|>)
  | (?P<unused><unused94>)
  | (?P<gemma><\|channel>thought)
  | (?P<channel><\|channel\|>(?:analysis|commentary)
        (?!\s{{0,4}}to=)[^<]{{0,80}}(?:<\|constrain\|>\w{{0,20}})?<\|message\|>)
  | (?P<end_alone>(?<![`'"])</(?i:{_TAGS})>(?![`'"]|\ [a-z])|\[/THINK\]|◁/think▷)
  | (?P<open><(?:{_WRAPPERS})>)
  | (?P<close></(?:{_WRAPPERS})>)
  | (?P<left_out><\|channel\|>final(?:[^\S\n]{{0,4}}<\|constrain\|>\w{{0,20}})?<\|message\|>
        |<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_(?:solution|box)\|>|<\|start\|>assistant
        |(?:\A\s{{0,8}}(?:assistant)?final)?<\|message\|>)
  | (?P<turn><\|im_start\|>(?:assistant|(?!a))|<\|start_header_id\|>(?:assistant|(?!a))
        |<start_of_turn>(?:model|(?!m))|<\|start\|>(?!a)|<\|(?:{_OTHER_SPEAKERS})\|>|<\uff5cUser\uff5c>)
  | (?P<mark><\|(?!(?:{_OTHER_SPEAKERS}|channel|constrain|start|message|im_start)\|
        |(?:start_header|START|END_RESPONSE|begin_of|end_of_(?:solution|box)|inner_prefix|python|plugin|action_start|tool)
        )\w{{1,40}}\|>
        |<\uff5c(?!tool|DSML|User)[\w▁]{{1,40}}\uff5c>|<end_of_turn>|<turn\|>|<eos>|<sep>|</s>|\[/INST\]|\[e~\[
        |\[\|endofturn\|\])
"""
"""Pattern of all that is no part of the answer, by name: beginnings of thoughts first, then marks of the template.

No alternative is the beginning of another one, so that the first that matches is the right one.
"""
_FENCE: Final = r"| (?P<fence>(?<![^\n])```\w{0,12}[^\S\n]{0,20}\n?)"
_ENDS: Final[dict[str, Any]] = {
    "tag": regex.compile(rf"</(?i:{_TAGS})>"),
    "details": regex.compile(r"</details>"),
    "bracket": regex.compile(r"\[/THINK\]"),
    "triangle": regex.compile(r"◁/think▷"),
    "cohere": regex.compile(r"<\|END_THINKING\|>"),
    "thought": regex.compile(r"<\|end_of_thought\|>"),
    "inner": regex.compile(r"<\|inner_suffix\|>"),
    "unused": regex.compile(r"<unused95>"),
    "gemma": regex.compile(r"<channel\|>"),
    "channel": regex.compile(r"<\|end\|>|<\|return\|>|(?=<\|start\|>)|(?=<\|channel\|>)"),
    "bare_channel": regex.compile(r"assistant(?:commentary)?final|assistant(?=commentary\s{0,4}to=)"),
    "react": regex.compile(r"\n\s{0,8}Final Answer:|(?=\nAction:)"),
    "granite": regex.compile(r"Here(?:'s| is) my response:"),
}
"""Ends of thoughts, by the name of their beginning."""
_LONGEST_END: Final = 40
_AHEAD: Final = 2
"""Characters behind a match that may say that it is none."""
_THOUGHT_INSIDE: Final = regex.compile(rf"(?<![`'\"])<(?i:{_TAGS})>(?![`'\"])")
_FENCES: Final = ("```", "~~~")
_SHORT: Final = 40
"""Characters of a line that say whether it is a fence, and of a text that say whether it begins like a thought."""
_LIKE_A_THOUGHT: Final = regex.compile(
    r"\W{0,8}(?i:(?:ok(?:ay)?|alright|all right|hmm+|let me|let's|let us|first|now|user|the user|the question|thinking"
    r"|to answer|looking at|(?:so,? ?)?(?:i|we) (?:need|have|should|must|are|will|'ll)|so,? (?:the|i|we))\b)"
    r"|\W{0,4}(?:好的|嗯|首先|用户|我们|让我)"
)
"""Beginnings of thoughts whose first tag is in the template: such a text waits until it is clear that it is none."""
_ENOUGH_TO_TELL: Final = 24
"""Characters after which such a beginning is recognized."""


class TextFilter:
    """Filters one answer."""

    def __init__(self, names: Sequence[str] = (), *, is_json: bool = False, thinks_aloud: bool | None = None) -> None:
        """Construct it.

        Args:
            names: of the tools that the model was offered: their calls may stand in the text.
            is_json: whether the answer should be JSON: a code fence around it is left out.
            thinks_aloud: whether the server is known to leave out the beginning of thoughts: nothing is passed on
                before their end then. None: it is not known, and decided by the first words.
        """
        self._names = names
        self._beginnings = _compiled(tuple(names), is_json)
        self._buffer = ""
        self._at = 0
        """Position in the buffer up to which it is read."""
        self._end: Any = None
        """Pattern of the end of the thought that is being read."""
        self._is_in_calls = False
        self._is_over = False
        self._has_thought = False
        self._is_nested = False
        """True if a thought held the beginning of another one, whose end may still come."""
        self._is_wrapped = self._is_fenced = False
        self._mark = ""
        """Marks of the template that are left out if nothing follows them."""
        self._kept: list[str] = []
        self._beginning = self._line = ""
        """Beginnings of the text that is kept, and of its last line."""
        self._is_in_code = False
        """True between two fences of the answer, where nothing is left out."""
        self._has_text = False
        self._pending = ""
        """Text that is not passed on yet."""
        self._has_passed_on = False
        self._waits = self._thinks_aloud = thinks_aloud
        self.ends_thoughts_alone = False
        """True if the end of a thought came without its beginning."""
        self.calls: list[WrittenCall] = []

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        self._buffer += piece
        self._read(is_last=False)
        # One character is left, which says whether a line begins.
        done = max(0, self._at - 1)
        self._buffer, self._at = self._buffer[done:], self._at - done
        return self._pass_on(is_last=False)

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        self._read(is_last=True)
        return self._pass_on(is_last=True)

    @property
    def text(self) -> str:
        """The text of the whole answer. After `ends_thoughts_alone` it is less than what was passed on."""
        return "".join(self._kept).strip()

    def _read(self, *, is_last: bool) -> None:
        is_waiting = False
        while not is_waiting and self._at < len(self._buffer):
            if self._is_over:
                self._at = len(self._buffer)
            elif self._end is not None:
                is_waiting = self._skip_thought(is_last=is_last)
            elif self._is_in_calls:
                is_waiting = self._read_calls(is_last=is_last)
            else:
                is_waiting = self._read_text(is_last=is_last)

    def _skip_thought(self, *, is_last: bool) -> bool:
        found = self._end.search(self._buffer, self._at)
        until = len(self._buffer) if found is None else found.start()
        if self._end is _ENDS["tag"] and _THOUGHT_INSIDE.search(self._buffer, self._at, until):
            self._is_nested = True
        if found is not None:
            self._at = found.end()
            self._end = None
            self._has_thought, self._waits = True, self._is_nested
            return False
        # What is left may hold the beginning of the end.
        self._at = len(self._buffer) if is_last else max(self._at, len(self._buffer) - _LONGEST_END)
        return True

    def _read_calls(self, *, is_last: bool) -> bool:
        if not is_last:
            return True
        written = self._buffer[self._at :]
        self.calls = find_written_calls(written, self._names)
        if not self.calls and not is_only_markers(written):
            self._keep(written)
        self._at = len(self._buffer)
        return True

    def _read_text(self, *, is_last: bool) -> bool:
        found = self._beginnings.search(self._buffer, self._at, partial=not is_last)
        start = len(self._buffer) if found is None else found.start()
        self._keep(self._buffer[self._at : start])
        self._at = start
        if found is None or found.partial or (found.end() + _AHEAD > len(self._buffer) and not is_last):
            # What follows may belong to it.
            return True
        if found.lastgroup == "calls":
            self._is_in_calls = True
        else:
            self._at = found.end()
            if self._is_quoted(found.lastgroup, start):
                self._keep(found.group())
            else:
                self._leave_out(found.lastgroup, found.group())
        return False

    def _is_quoted(self, kind: str, start: int) -> bool:
        """Decide whether the answer writes about what was found: it stands in code."""
        if kind == "end_alone" and (self._thinks_aloud or _LIKE_A_THOUGHT.match(self._beginning)):
            return False
        is_in_span = kind != "mark" and start > 0 and self._buffer[start - 1] == "`"
        return is_in_span or (self._is_in_code and kind not in ("mark", "fence"))

    def _leave_out(self, kind: str, matched: str) -> None:
        match kind:
            case "end_alone" if not self._has_thought or self._is_nested:
                self.ends_thoughts_alone = not self._has_thought
                self._has_thought, self._is_nested = True, False
                self._forget()
            case "open" if self._has_thought and not self._has_text:
                self._is_wrapped = True
            case "fence" if not self._has_text:
                self._is_fenced = True
            case "turn" if self._has_text:
                # The model goes on with words of the user.
                self._is_over = True
            case "mark" | "fence" if self._has_text and (kind == "mark" or self._is_fenced):
                self._mark += matched
            case "close" if self._is_wrapped:
                pass
            case "open" | "close" | "fence":
                self._keep(matched)
            case _:
                self._end = _ENDS.get(kind)

    def _keep(self, text: str) -> None:
        if not text:
            return
        if self._mark:
            if not text.strip():
                self._mark += text
                return
            text, self._mark = self._mark + text, ""
        self._has_text = self._has_text or not text.isspace()
        *lines, line = (self._line + text).split("\n")
        if sum(each.lstrip().startswith(_FENCES) for each in lines) % 2:
            self._is_in_code = not self._is_in_code
        self._line = line[:_SHORT]
        if len(self._beginning) < _SHORT:
            self._beginning = (self._beginning + text).lstrip()[:_SHORT]
        self._kept.append(text)
        self._pending += text

    def _forget(self) -> None:
        """Forget what came: it was a thought."""
        self._kept.clear()
        self._beginning = self._line = ""
        self._is_in_code = False
        self._pending = self._mark = ""
        self._has_text = self._has_passed_on = self._waits = False

    def _pass_on(self, *, is_last: bool) -> str:
        """Return what has become certain. White space at both ends of the answer is left out."""
        if not self._has_passed_on and self._pending[:1].isspace():
            self._pending = self._pending.lstrip()
        if not is_last and self._is_waiting():
            return ""
        text = self._pending.rstrip()
        self._pending = self._pending[len(text) :]
        self._has_passed_on = self._has_passed_on or bool(text)
        return text

    def _is_waiting(self) -> bool:
        if self._waits is None:
            if len(self._pending) < _ENOUGH_TO_TELL:
                return True
            self._waits = _LIKE_A_THOUGHT.match(self._pending) is not None
        return self._waits


@lru_cache(maxsize=256)
def _compiled(names: tuple[str, ...], is_json: bool) -> Any:
    calls = f"| {build_beginnings(names)}" if names else ""
    return regex.compile(_BEGINNINGS + (_FENCE if is_json else "") + calls, regex.VERBOSE)
