"""Tokens of Handlebars templates: texts and tags, with the white space around tags removed as Handlebars does it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kb_contracts.knowledge.formatters.render_budget import UnusableTemplate

TagKind: TypeAlias = Literal["text", "value", "open", "else", "close", "comment"]
_BLANKS: Final = " \t"
_LINE_BREAKS: Final = ("\r\n", "\n")
_NOT_WRITTEN: Final = frozenset({"open", "else", "close", "comment"})
_REFUSED: Final = {">": "partials", "*": "decorators", "^": "inverse blocks; write {{else}}"}


@dataclass(slots=True)
class HandlebarsToken:
    kind: TagKind
    text: str
    """Text, or what the tag contains without its mark."""
    trims_before: bool = False
    trims_after: bool = False


def tokenize(template: str) -> list[HandlebarsToken]:
    """Return texts and tags in turn; the first and the last one are texts."""
    tokens = list(_scan(template))
    _remove_white_space(tokens)
    return tokens


def _scan(template: str) -> Iterator[HandlebarsToken]:
    position = 0
    while (start := template.find("{{", position)) >= 0:
        yield HandlebarsToken("text", template[position:start])
        token, position = _read_tag(template, start)
        yield token
    yield HandlebarsToken("text", template[position:])


def _read_tag(template: str, start: int) -> tuple[HandlebarsToken, int]:
    """Return the tag at `start` and the position after it."""
    if template.startswith(("{{!--", "{{~!--"), start):
        end = _find(template, "--", after=start + 5, followed_by=("}}", "~}}"))
        end = template.index("}}", end) + 2
        return HandlebarsToken("comment", "", *_trims(template[start:end])), end
    closing = "}}}" if template.startswith("{{{", start) else "}}"
    end = template.find(closing, start)
    if end < 0:
        raise UnusableTemplate("has a tag without its end")
    end += len(closing)
    before, after = _trims(template[start:end])
    content = template[start:end].strip("{}").removeprefix("~").removesuffix("~").strip()
    return HandlebarsToken(*_classify(content), before, after), end


def _find(template: str, text: str, *, after: int, followed_by: tuple[str, ...]) -> int:
    position = template.find(text, after)
    while position >= 0 and not template.startswith(followed_by, position + len(text)):
        position = template.find(text, position + 1)
    if position < 0:
        raise UnusableTemplate("has a comment without its end")
    return position


def _trims(tag: str) -> tuple[bool, bool]:
    return tag.lstrip("{").startswith("~"), tag.rstrip("}").endswith("~")


def _classify(content: str) -> tuple[TagKind, str]:
    mark, rest = content[:1], content[1:].strip()
    if mark in _REFUSED or (mark == "#" and rest[:1] in _REFUSED):
        raise UnusableTemplate(f"may not contain {_REFUSED[mark if mark in _REFUSED else rest[0]]}")
    match mark:
        case "!":
            return "comment", ""
        case "#":
            return "open", rest
        case "/":
            return "close", rest
        case "&":
            return "value", rest
    first, _, condition = content.partition(" ")
    return ("else", condition.strip()) if first == "else" else ("value", content)


def _remove_white_space(tokens: list[HandlebarsToken]) -> None:
    """Remove what `~` asks for, and lines that contain only a tag which writes nothing."""
    alone = [index for index in range(1, len(tokens), 2) if _is_alone_on_its_line(tokens, index)]
    for index in range(1, len(tokens), 2):
        before, tag, after = tokens[index - 1 : index + 2]
        if tag.trims_before:
            before.text = before.text.rstrip()
        if tag.trims_after:
            after.text = after.text.lstrip()
    for index in alone:
        tokens[index - 1].text = tokens[index - 1].text.rstrip(_BLANKS)
        after = tokens[index + 1]
        after.text = _without_line_end(after.text)


def _is_alone_on_its_line(tokens: list[HandlebarsToken], index: int) -> bool:
    before, tag, after = tokens[index - 1 : index + 2]
    if tag.kind not in _NOT_WRITTEN:
        return False
    _, line_break, line = before.text.rpartition("\n")
    rest = after.text.lstrip(_BLANKS)
    # A text that reaches its end without a line break is followed by another tag, unless it is the last one.
    starts = not line.strip(_BLANKS) and (index == 1 or line_break == "\n")
    ends = rest.startswith(_LINE_BREAKS) or (not rest and index == len(tokens) - 2)
    return starts and ends


def _without_line_end(text: str) -> str:
    """Return the text without the rest of its first line, if that is blank."""
    rest = text.lstrip(_BLANKS)
    line_break = next((each for each in _LINE_BREAKS if rest.startswith(each)), None)
    return rest if not rest else text if line_break is None else rest.removeprefix(line_break)
