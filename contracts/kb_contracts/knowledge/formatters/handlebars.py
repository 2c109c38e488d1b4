"""A subset of Handlebars: paths, the blocks `if`, `unless`, `each`, `with` and `else`, comments, and `~`.

There are no helpers with arguments, no partials and no decorators. Nothing is escaped for HTML: a prompt is none. The
packages for Python have had no release for years and make Python code out of a template.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from kb_contracts.knowledge.formatters.handlebars_tokens import HandlebarsToken, tokenize
from kb_contracts.knowledge.formatters.render_budget import RenderBudget, UnusableTemplate, check_length
from kb_contracts.knowledge.formatters.section_variables import JsonValue, section_variables, value_text
from kb_contracts.knowledge.routing import RoutedSection, SectionFormatter

_MAX_NESTED_BLOCKS: Final = 20
_BLOCKS: Final = frozenset({"if", "unless", "each", "with"})
_NAME: Final = r"(?:[\w-]+|\[[^\[\]]+\])"
_PATH: Final = re.compile(rf"(?P<ups>(?:\.\./)*)(?:this|\.|(?:this\.|\./)?(?P<names>@?{_NAME}(?:\.{_NAME})*))")
_NAME_IN_PATH: Final = re.compile(rf"@?{_NAME}")


def compile_handlebars(template: str) -> SectionFormatter:
    """Return the formatter of a template such as `{{#each pieces}}- {{content}}{{/each}}`.

    Raises:
        UnusableTemplate: it is not within the subset.
    """
    check_length(template)
    nodes = _HandlebarsParser(iter(tokenize(template))).parse()

    def render(section: RoutedSection) -> str:
        return "".join(_HandlebarsRendering().write(nodes, _HandlebarsContext(section_variables(section))))

    return render


@dataclass(frozen=True, slots=True)
class _HandlebarsPath:
    ups: int
    """Number of contexts to leave, one for each `../`."""
    segments: tuple[str, ...]
    """Names from the context down; the first may begin with `@`."""


@dataclass(frozen=True, slots=True)
class _HandlebarsBlock:
    name: str
    path: _HandlebarsPath
    body: "list[_HandlebarsNode]" = field(default_factory=list)
    otherwise: "list[_HandlebarsNode]" = field(default_factory=list)


_HandlebarsNode: TypeAlias = str | _HandlebarsPath | _HandlebarsBlock


class _HandlebarsParser:
    def __init__(self, tokens: Iterator[HandlebarsToken]) -> None:
        self._tokens = tokens

    def parse(self) -> list[_HandlebarsNode]:
        nodes, end = self._parse_body(depth=0)
        if end is not None:
            raise UnusableTemplate("closes a block, or has an else, outside of a block")
        return nodes

    def _parse_body(self, *, depth: int) -> tuple[list[_HandlebarsNode], HandlebarsToken | None]:
        """Return the nodes up to the tag that ends them: an else, the end of the block, or none."""
        if depth > _MAX_NESTED_BLOCKS:
            raise UnusableTemplate(f"nests more than {_MAX_NESTED_BLOCKS} blocks")
        nodes: list[_HandlebarsNode] = []
        for token in self._tokens:
            match token.kind:
                case "text" if token.text:
                    nodes.append(token.text)
                case "value":
                    nodes.append(_parse_path(token.text))
                case "open":
                    block, end = self._parse_block(token.text, depth=depth + 1)
                    if end.text != block.name:
                        raise UnusableTemplate("closes another block than the last one that it opened")
                    nodes.append(block)
                case "else" | "close":
                    return nodes, token
        return nodes, None

    def _parse_block(self, opening: str, *, depth: int) -> tuple[_HandlebarsBlock, HandlebarsToken]:
        """Return the block and the tag that closes it, which also closes the block before an `else if`."""
        name, _, path = opening.partition(" ")
        if name not in _BLOCKS:
            raise UnusableTemplate("may contain the blocks if, unless, each and with only")
        body, end = self._parse_body(depth=depth)
        otherwise: list[_HandlebarsNode] = []
        if end is not None and end.kind == "else":
            if end.text:
                chained, end = self._parse_block(end.text, depth=depth + 1)
                otherwise = [chained]
            else:
                otherwise, end = self._parse_body(depth=depth)
        if end is None or end.kind != "close":
            raise UnusableTemplate("has a block without its end")
        return _HandlebarsBlock(name, _parse_path(path.strip()), body, otherwise), end


def _parse_path(text: str) -> _HandlebarsPath:
    found = _PATH.fullmatch(text)
    if found is None:
        raise UnusableTemplate("may contain paths in tags only, such as {{content}}: no helpers with arguments")
    names = _NAME_IN_PATH.findall(found["names"] or "")
    return _HandlebarsPath(found["ups"].count("../"), tuple(name.strip("[]") for name in names))


@dataclass(frozen=True, slots=True)
class _HandlebarsContext:
    """The value that names refer to, `@` variables beside it, and the context outside of it."""

    value: JsonValue
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    outer: "_HandlebarsContext | None" = None

    def find(self, path: _HandlebarsPath) -> JsonValue:
        context = self
        for _ in range(path.ups):
            if context.outer is None:
                return None
            context = context.outer
        value, names = context.value, path.segments
        if names and names[0].startswith("@"):
            value, names = context.find_data(names[0]), names[1:]
        for name in names:
            value = _member(value, name)
        return value

    def find_data(self, name: str) -> JsonValue:
        if name == "@root":
            return self.outer.find_data(name) if self.outer is not None else self.value
        return self.data.get(name)


class _HandlebarsRendering:
    def __init__(self) -> None:
        self._budget = RenderBudget()

    def write(self, nodes: Iterable[_HandlebarsNode], context: _HandlebarsContext) -> Iterator[str]:
        for node in nodes:
            self._budget.spend()
            match node:
                case str():
                    yield self._budget.produce(node)
                case _HandlebarsPath():
                    yield self._budget.produce(value_text(context.find(node)))
                case _HandlebarsBlock():
                    yield from self._write_block(node, context)

    def _write_block(self, block: _HandlebarsBlock, context: _HandlebarsContext) -> Iterator[str]:
        value = context.find(block.path)
        match block.name:
            case "each":
                inner = list(_contexts_of_each(value, context))
            case "with":
                inner = [_HandlebarsContext(value, context.data, context)] if _is_true(value) else []
            case "if":
                inner = [context] if _is_true(value) else []
            case _:
                inner = [] if _is_true(value) else [context]
        self._budget.spend(len(inner))
        for each in inner:
            yield from self.write(block.body, each)
        if not inner:
            yield from self.write(block.otherwise, context)


def _contexts_of_each(value: JsonValue, outer: _HandlebarsContext) -> Iterator[_HandlebarsContext]:
    members: list[tuple[int | str, JsonValue]] = []
    match value:
        case list():
            members.extend(enumerate(value))
        case dict():
            members.extend(value.items())
    for index, (key, member) in enumerate(members):
        position = {"@index": index, "@key": key, "@first": index == 0, "@last": index == len(members) - 1}
        yield _HandlebarsContext(member, position, outer)


def _member(value: JsonValue, name: str) -> Any:
    match value:
        case dict():
            return value.get(name)
        case list() if name == "length":
            return len(value)
        case list() if name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(value):
            return value[int(name)]
        case _:
            return None


def _is_true(value: JsonValue) -> bool:
    # As in JavaScript, an object is true, also an empty one.
    return bool(value) or isinstance(value, dict)
