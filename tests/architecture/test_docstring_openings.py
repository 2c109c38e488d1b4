"""The first line of a docstring is understood by itself: a verb or a noun opens it, not a relative clause."""

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = (
    "benchmarks",
    "client/kb_client",
    "contracts/kb_contracts",
    "local/kb_local",
    "services/console/kb_console",
    "services/indexer/kb_indexer",
    "services/kb-api/kb_api",
    "services/knowledge/kb_knowledge",
    "services/reconciler/kb_reconciler",
    "services/search/kb_search",
    "shared/kb_shared",
    "tests",
)
ASSIGNMENTS: Final = (ast.Assign, ast.AnnAssign)
REFUSED: Final = frozenset(
    {"How", "Of", "That", "Those", "What", "When", "Where", "Whether", "Which", "Who", "Whom", "Whose", "Wire"}
)


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _texts(body[:1])
        assigned = (second for first, second in pairwise(body) if isinstance(first, ASSIGNMENTS))
        yield from _texts(assigned)


def _texts(nodes: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def refused(source: str) -> list[tuple[int, str]]:
    """Return line and first word of the docstrings that open with a refused word."""
    first_words = ((line, text.split(maxsplit=1)[0].strip(",:;.")) for line, text in docstrings(ast.parse(source)))
    return [(line, word) for line, word in first_words if word in REFUSED]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_opens_with_a_fragment(package: str) -> None:
    sources = sorted((ROOT / package).rglob("*.py"))
    assert sources
    found = {str(source.relative_to(ROOT)): refused(source.read_text()) for source in sources}
    if package == "tests":
        # The title of a test module may be a question or the rest of a sentence that its tests complete.
        found = {file: [(line, word) for line, word in places if line > 1] for file, places in found.items()}
    assert {file: places for file, places in found.items() if places} == {}


def test_fragments_are_found_in_modules_functions_classes_and_attributes() -> None:
    source = '"""How it works."""\nclass A:\n    """What it is."""\n    x: int = 1\n    """Of it."""\n'
    source += '    def f(self):\n        """Return x."""\n'
    assert refused(source) == [(1, "How"), (3, "What"), (5, "Of")]
