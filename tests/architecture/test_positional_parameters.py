"""No function has more than three positional parameters: the others are keyword-only, or ids are one key."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("client", "contracts", "local", "services", "shared")
MOST: Final = 3

IMPOSED: Final = {
    "services/search/kb_search/runs/answer_schema.py:_within_budget.checked": "jsonschema calls it",
    "services/search/kb_search/runs/answer_schema.py:_refusing_unsupported.checked": "jsonschema calls it",
    "services/search/kb_search/runs/answer_schema.py:_unique_items": "jsonschema calls it",
    "shared/kb_shared/http/protocol.py:Protocol.__init__": "uvicorn calls it",
    "shared/kb_shared/http/request_context.py:RequestContext._exchange": "ASGI: scope, receive, send",
    "shared/kb_shared/providers/public_transport.py:_PublicOnly.connect_tcp": "a method of httpcore's backend",
}
"""Functions whose signature other software decides, with the reason."""

_ROUTES: Final = frozenset({"delete", "get", "patch", "post", "put"})


def many_positional(tree: ast.Module) -> Iterator[str]:
    """Yield the qualified names of functions with too many; routes don't count: FastAPI passes all by name."""
    yield from _in(tree, prefix="", in_class=False)


def _in(node: ast.AST, *, prefix: str, in_class: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [each.arg for each in (*child.args.posonlyargs, *child.args.args)]
            own = names[1:] if in_class and names[:1] in (["self"], ["cls"]) else names
            if len(own) > MOST and not any(map(_is_route, child.decorator_list)):
                yield prefix + child.name
            yield from _in(child, prefix=f"{prefix}{child.name}.", in_class=False)
        elif isinstance(child, ast.ClassDef):
            yield from _in(child, prefix=f"{prefix}{child.name}.", in_class=True)
        else:
            yield from _in(child, prefix=prefix, in_class=in_class)


def _is_route(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute) and decorator.func.attr in _ROUTES
    )


@pytest.fixture(scope="module")
def found() -> set[str]:
    """Every function of production code with too many, as `file:function`."""
    sources = [source for package in PACKAGES for source in sorted((ROOT / package).rglob("*.py"))]
    assert sources
    return {
        f"{source.relative_to(ROOT)}:{name}"
        for source in sources
        for name in many_positional(ast.parse(source.read_text()))
    }


def test_no_function_has_more_than_three_positional_parameters(found: set[str]) -> None:
    assert sorted(found - set(IMPOSED)) == [], "make arguments keyword-only, or ids one key of kb_shared/mongo/keys.py"


def test_an_exception_is_removed_when_it_is_no_longer_needed(found: set[str]) -> None:
    assert sorted(set(IMPOSED) - found) == [], "remove these lines"


def test_self_keyword_only_parameters_and_routes_do_not_count() -> None:
    source = "class A:\n    def f(self, a, b, c): ...\n    def g(self, a, b, c, d): ...\n"
    source += "def h(a, b, c, *, d): ...\n@router.get('/')\ndef i(a, b, c, d): ...\n"
    source += "def j(a):\n    def k(a, b, c, d): ...\n"
    assert list(many_positional(ast.parse(source))) == ["A.g", "j.k"]
