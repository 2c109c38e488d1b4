"""A subset of Jinja2: output, `if`, `for` and `set`, with operators and filters whose results have a limit.

Jinja2 parses the template, and this module evaluates its parts. Jinja2 would compile them to Python, and its sandbox
limits neither time nor memory: `{{ 'a' * 10 ** 9 }}` is enough. A name without a value is null, which writes nothing.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from jinja2 import nodes

from kb_contracts.knowledge.formatters.jinja_filters import FILTERS, TESTS, FilterInput, find_member
from kb_contracts.knowledge.formatters.jinja_subset import parse
from kb_contracts.knowledge.formatters.render_budget import RenderBudget, UnusableTemplate, check_length
from kb_contracts.knowledge.formatters.section_variables import section_variables, value_text
from kb_contracts.knowledge.routing import RoutedSection, SectionFormatter

_CHARACTERS_OF_A_MEMBER: Final = 1_000
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda left, right: bool(left == right),
    "ne": lambda left, right: bool(left != right),
    "lt": lambda left, right: bool(left < right),
    "lteq": lambda left, right: bool(left <= right),
    "gt": lambda left, right: bool(left > right),
    "gteq": lambda left, right: bool(left >= right),
    "in": lambda left, right: bool(left in right),
    "notin": lambda left, right: bool(left not in right),
}

JinjaScope: TypeAlias = ChainMap[str, Any]


def compile_jinja(template: str) -> SectionFormatter:
    """Return the formatter of a template such as `{% for piece in pieces %}- {{ piece.content }}{% endfor %}`.

    Raises:
        UnusableTemplate: it can't be parsed, or is not within the subset.
    """
    check_length(template)
    body = parse(template).body

    def render(section: RoutedSection) -> str:
        try:
            return "".join(_JinjaRendering().write(body, ChainMap({}, section_variables(section))))
        except (TypeError, LookupError, RecursionError):
            raise UnusableTemplate("uses a value in a way that its type does not allow") from None

    return render


class _JinjaRendering:
    def __init__(self) -> None:
        self._budget = RenderBudget()

    def write(self, body: Iterable[nodes.Node], scope: JinjaScope) -> Iterator[str]:
        for node in body:
            self._budget.spend()
            match node:
                case nodes.Output():
                    for part in node.nodes:
                        yield self._budget.produce(self._text(part, scope))
                case nodes.If():
                    yield from self.write(self._branch(node, scope), scope)
                case nodes.For():
                    yield from self._write_loop(node, scope)
                case nodes.Assign(target=nodes.Name(name=name)):
                    scope[name] = self._evaluate(node.node, scope)

    def _branch(self, node: nodes.If, scope: JinjaScope) -> list[nodes.Node]:
        for candidate in (node, *node.elif_):
            if self._evaluate(candidate.test, scope):
                return candidate.body
        return node.else_

    def _write_loop(self, node: nodes.For, scope: JinjaScope) -> Iterator[str]:
        members = self._members(node, scope)
        for index, member in enumerate(members):
            inner = scope.new_child(_bind(node.target, member))
            inner["loop"] = {
                "index": index + 1,
                "index0": index,
                "first": index == 0,
                "last": index == len(members) - 1,
                "length": len(members),
            }
            yield from self.write(node.body, inner)
        if not members:
            yield from self.write(node.else_, scope)

    def _members(self, node: nodes.For, scope: JinjaScope) -> list[Any]:
        value = self._evaluate(node.iter, scope)
        members = list(value) if isinstance(value, (list, dict)) else []
        self._budget.spend(len(members))
        test = node.test
        if test is None:
            return members
        return [each for each in members if self._evaluate(test, scope.new_child(_bind(node.target, each)))]

    def _text(self, node: nodes.Node, scope: JinjaScope) -> str:
        return node.data if isinstance(node, nodes.TemplateData) else value_text(self._evaluate(node, scope))

    def _evaluate(self, node: nodes.Node, scope: JinjaScope) -> Any:
        self._budget.spend()
        match node:
            case nodes.Const():
                return node.value
            case nodes.Name():
                return scope.get(node.name)
            case nodes.Getattr():
                return find_member(self._evaluate(node.node, scope), node.attr)
            case nodes.Getitem():
                return find_member(self._evaluate(node.node, scope), self._evaluate(node.arg, scope))
            case nodes.List() | nodes.Tuple():
                return [self._evaluate(item, scope) for item in node.items]
            case _:
                return self._calculate(node, scope)

    def _calculate(self, node: nodes.Node, scope: JinjaScope) -> Any:
        match node:
            case nodes.Filter() | nodes.Test():
                return self._apply(node, scope)
            case nodes.Call():
                return self._call(node, scope)
            case nodes.Concat():
                return "".join([self._budget.produce(self._text(part, scope)) for part in node.nodes])
            case nodes.CondExpr():
                chosen = node.expr1 if self._evaluate(node.test, scope) else node.expr2
                return None if chosen is None else self._evaluate(chosen, scope)
            case _:
                return self._decide(node, scope)

    def _decide(self, node: nodes.Node, scope: JinjaScope) -> Any:
        match node:
            case nodes.And():
                return self._evaluate(node.left, scope) and self._evaluate(node.right, scope)
            case nodes.Or():
                return self._evaluate(node.left, scope) or self._evaluate(node.right, scope)
            case nodes.Not():
                return not self._evaluate(node.node, scope)
            case nodes.Compare():
                return self._compare(node, scope)
        raise UnusableTemplate(f"may not contain {type(node).__name__} here")

    def _apply(self, node: nodes.Filter | nodes.Test, scope: JinjaScope) -> Any:
        assert node.node is not None
        value = self._evaluate(node.node, scope)
        args = [self._evaluate(each, scope) for each in node.args]
        kwargs = {str(each.key): self._evaluate(each.value, scope) for each in node.kwargs}
        if isinstance(node, nodes.Test):
            return TESTS[node.name](value, *args, **kwargs)
        return FILTERS[node.name](FilterInput(self._budget, value), *args, **kwargs)

    def _call(self, node: nodes.Call, scope: JinjaScope) -> list[Any]:
        assert isinstance(node.node, nodes.Getattr)
        items = FilterInput(self._budget, self._evaluate(node.node.node, scope)).items()
        match node.node.attr:
            case "keys":
                return [key for key, _ in items]
            case "values":
                return [value for _, value in items]
            case _:
                return [list(item) for item in items]

    def _compare(self, node: nodes.Compare, scope: JinjaScope) -> bool:
        left = self._evaluate(node.expr, scope)
        for operand in node.ops:
            right = self._evaluate(operand.expr, scope)
            self._budget.spend_reading(_size(left) + _size(right))
            if not _OPERATORS[operand.op](left, right):
                return False
            left = right
        return True


def _bind(target: nodes.Node, member: Any) -> dict[str, Any]:
    if isinstance(target, nodes.Name):
        return {target.name: member}
    assert isinstance(target, nodes.Tuple)
    names = [name.name for name in target.items if isinstance(name, nodes.Name)]
    values = member if isinstance(member, list) else []
    if len(names) != len(values):
        raise UnusableTemplate("loops with more or fewer names than a member has values")
    return dict(zip(names, values, strict=True))


def _size(value: Any) -> int:
    match value:
        case str():
            return len(value)
        case list() | dict():
            return _CHARACTERS_OF_A_MEMBER * len(value)
        case _:
            return 0
