"""The part of Jinja2 that templates may use: parsed by Jinja2 and checked against a list."""

from collections.abc import Callable, Iterable
from typing import Final

from jinja2 import Environment, TemplateSyntaxError, nodes

from kb_contracts.knowledge.formatters.jinja_filters import FILTERS, TESTS
from kb_contracts.knowledge.formatters.render_budget import UnusableTemplate

_MAX_NESTING: Final = 50
_METHODS: Final = frozenset({"items", "keys", "values"})
_ALLOWED: Final = frozenset(
    {
        nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign,
        nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Compare, nodes.Operand,
        nodes.And, nodes.Or, nodes.Not, nodes.CondExpr, nodes.Concat, nodes.Filter, nodes.Test, nodes.Keyword,
        nodes.Tuple, nodes.List,
    }
)  # fmt: skip


def parse(template: str) -> nodes.Template:
    """Return the parts of a template, which are all allowed.

    Raises:
        UnusableTemplate: it can't be parsed, or has other parts.
    """
    try:
        # Nothing is rendered here.
        tree = Environment(autoescape=True).parse(template)
    except TemplateSyntaxError as error:
        raise UnusableTemplate(f"can't be parsed; look at line {error.lineno}") from None
    except (RecursionError, ValueError, OverflowError):
        raise UnusableTemplate("can't be parsed: it nests too deeply, or contains a number that is too long") from None
    _check(tree, depth=0)
    return tree


def _check(node: nodes.Node, *, depth: int) -> None:
    if depth > _MAX_NESTING:
        raise UnusableTemplate("nests its parts too deeply")
    if type(node) not in _ALLOWED:
        raise UnusableTemplate(f"may not contain {type(node).__name__}; output, if, for and set are allowed")
    for is_allowed, otherwise in _RULES.get(type(node), ()):
        if not is_allowed(node):
            raise UnusableTemplate(otherwise)
    for child in node.iter_child_nodes():
        _check(child, depth=depth + 1)


def _has_plain_arguments(call: nodes.Filter | nodes.Test) -> bool:
    return call.node is not None and call.dyn_args is None and call.dyn_kwargs is None


def _is_method_of_map(call: nodes.Call) -> bool:
    has_arguments = bool(call.args or call.kwargs) or call.dyn_args is not None or call.dyn_kwargs is not None
    return isinstance(call.node, nodes.Getattr) and call.node.attr in _METHODS and not has_arguments


def _are_constants(members: nodes.List) -> bool:
    return all(isinstance(member, nodes.Const) for member in members.items)


def _is_target_or_constants(members: nodes.Tuple) -> bool:
    kind = nodes.Name if members.ctx == "store" else nodes.Const
    return all(isinstance(member, kind) for member in members.items)


_CONSTANTS: Final = "may contain lists of constants only"
"""Reason: lists of lists of variables would double with each `{% set a = [a, a] %}`."""
_ARGUMENTS: Final = "may not contain filter blocks, and no * or ** before arguments"
_RULES: Final[dict[type[nodes.Node], Iterable[tuple[Callable[..., bool], str]]]] = {
    nodes.Filter: (
        (lambda node: node.name in FILTERS, f"may use these filters only: {', '.join(sorted(FILTERS))}"),
        (_has_plain_arguments, _ARGUMENTS),
    ),
    nodes.Test: (
        (lambda node: node.name in TESTS, f"may use these tests only: {', '.join(sorted(TESTS))}"),
        (_has_plain_arguments, _ARGUMENTS),
    ),
    nodes.Call: ((_is_method_of_map, "may call nothing but items(), keys() and values() of a map"),),
    nodes.List: ((_are_constants, _CONSTANTS),),
    nodes.Tuple: ((_is_target_or_constants, _CONSTANTS),),
    nodes.Assign: ((lambda node: isinstance(node.target, nodes.Name), "may set one name at a time"),),
    nodes.For: (
        (lambda node: not node.recursive, "may not contain recursive loops"),
        (lambda node: isinstance(node.target, (nodes.Name, nodes.Tuple)), "may loop with names only"),
    ),
}
