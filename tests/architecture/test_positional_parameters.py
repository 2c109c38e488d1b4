"""No function has more than three positional parameters, and no two ids that follow each other.

The others are keyword-only, or ids are one key: a caller that swaps two ids of type `str` passes the type check.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("client", "contracts", "local", "services", "shared")
MOST: Final = 3

IMPOSED: Final = {
    "client/kb_client/knowledge/knowledge_base.py:KnowledgeBase.__init__": "the order that programs with stores know",
    "services/search/kb_search/runs/answer_schema.py:_within_budget.checked": "jsonschema calls it",
    "services/search/kb_search/runs/answer_schema.py:_refusing_unsupported.checked": "jsonschema calls it",
    "services/search/kb_search/runs/answer_schema.py:_unique_items": "jsonschema calls it",
    "shared/kb_shared/http/protocol.py:Protocol.__init__": "uvicorn calls it",
    "shared/kb_shared/providers/public_transport.py:_PublicOnly.connect_tcp": "a method of httpcore's backend",
}
"""Functions whose signature other software decides, with the reason."""

FOR_BULK_LOOKUP: Final = {
    "services/kb-api/kb_api/searchable_documents.py:_find_reached",
    "shared/kb_shared/mongo/document_index.py:find_of_documents",
    "shared/kb_shared/mongo/documents.py:find_by_ids",
    "shared/kb_shared/mongo/index_jobs/queries.py:find_states",
    "shared/kb_shared/mongo/knowledge_bases.py:find_by_ids",
}
"""Functions that `bulk_lookup` calls with an organization and ids of whatever kind."""

_ROUTES: Final = frozenset({"delete", "get", "patch", "post", "put"})


def many_positional(tree: ast.Module) -> Iterator[str]:
    """Yield the qualified names of functions with too many."""
    return (name for name, parameters in _functions(tree) if len(parameters) > MOST)


def ids_that_follow_each_other(tree: ast.Module) -> Iterator[str]:
    """Yield the qualified names of functions with two adjacent positional ids."""
    return (name for name, parameters in _functions(tree) if any(map(_are_ids, pairwise(parameters))))


def _are_ids(names: tuple[str, str]) -> bool:
    return all(name.endswith(("_id", "_ids")) for name in names)


def _functions(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield the qualified names and positional parameters of functions but routes: FastAPI passes all by name."""
    yield from _in(tree, prefix="", in_class=False)


def _in(node: ast.AST, *, prefix: str, in_class: bool) -> Iterator[tuple[str, list[str]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [each.arg for each in (*child.args.posonlyargs, *child.args.args)]
            own = names[1:] if in_class and names[:1] in (["self"], ["cls"]) else names
            if not any(map(_is_route, child.decorator_list)):
                yield prefix + child.name, own
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
def modules() -> dict[str, ast.Module]:
    """Every file of production code."""
    sources = [source for package in PACKAGES for source in sorted((ROOT / package).rglob("*.py"))]
    assert sources
    return {str(source.relative_to(ROOT)): ast.parse(source.read_text()) for source in sources}


@pytest.fixture(scope="module")
def found(modules: dict[str, ast.Module]) -> set[str]:
    """Every function with too many, as `file:function`."""
    return {f"{source}:{name}" for source, tree in modules.items() for name in many_positional(tree)}


def test_no_function_has_more_than_three_positional_parameters(found: set[str]) -> None:
    assert sorted(found - set(IMPOSED)) == [], "make arguments keyword-only, or ids one key of kb_shared/mongo/keys.py"


def test_an_exception_is_removed_when_it_is_no_longer_needed(found: set[str]) -> None:
    assert sorted(set(IMPOSED) - found) == [], "remove these lines"


def test_ids_that_follow_each_other_are_one_key_or_keyword_only(modules: dict[str, ast.Module]) -> None:
    found = {f"{source}:{name}" for source, tree in modules.items() for name in ids_that_follow_each_other(tree)}
    assert found == FOR_BULK_LOOKUP, (
        "use a key, such as those of kb_shared/mongo/keys.py, or make the second keyword-only"
    )


def test_ids_with_another_parameter_between_or_by_keyword_don_t_follow_each_other() -> None:
    source = "def f(a_id, b, c_id): ...\ndef g(a_id, *, b_id): ...\ndef h(a_id, b_ids): ...\n"
    source += "@router.get('/')\ndef i(a_id, b_id): ...\nclass A:\n    def j(self, a_id, b_id): ...\n"
    assert list(ids_that_follow_each_other(ast.parse(source))) == ["h", "A.j"]


def test_self_keyword_only_parameters_and_routes_do_not_count() -> None:
    source = "class A:\n    def f(self, a, b, c): ...\n    def g(self, a, b, c, d): ...\n"
    source += "def h(a, b, c, *, d): ...\n@router.get('/')\ndef i(a, b, c, d): ...\n"
    source += "def j(a):\n    def k(a, b, c, d): ...\n"
    assert list(many_positional(ast.parse(source))) == ["A.g", "j.k"]
