"""Tasks run together through `concurrent_tasks`: `asyncio.gather` leaves the others running when one of them fails.

`gather` is right only to wait for the end of tasks whose outcomes don't matter, such as cancelled ones: with
`return_exceptions=True`, and its result dropped.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("client", "contracts", "local", "services", "shared")
OTHER_USES: Final = {
    "shared/kb_shared/concurrency/concurrent_tasks.py": "the helper itself",
    "shared/kb_shared/kafka/topics.py": "each broker may fail; the outcomes are looked at one by one",
}
"""Files that use `gather` in another way, with the reason."""


def refused_uses(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that name `gather`, except those that wait for the end of tasks and ignore their outcomes."""
    waits = {
        id(node.value.value.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Await)
        and isinstance(node.value.value, ast.Call)
        and any(each.arg == "return_exceptions" for each in node.value.value.keywords)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="gather") if id(node) not in waits:
                yield node.lineno
            case ast.ImportFrom(names=names) if any(each.name == "gather" for each in names):
                yield node.lineno


@pytest.fixture(scope="module")
def found() -> dict[str, list[int]]:
    """The lines of production code that are refused, by file."""
    sources = [source for package in PACKAGES for source in sorted((ROOT / package).rglob("*.py"))]
    assert sources
    lines = {str(source.relative_to(ROOT)): [*refused_uses(ast.parse(source.read_text()))] for source in sources}
    return {source: refused for source, refused in lines.items() if refused}


def test_tasks_run_together_through_the_helper(found: dict[str, list[int]]) -> None:
    others = {source: lines for source, lines in found.items() if source not in OTHER_USES}
    assert others == {}, "use run_all or run_all_or_cancel of kb_shared/concurrency/concurrent_tasks.py"


def test_a_reason_is_removed_when_it_is_no_longer_needed(found: dict[str, list[int]]) -> None:
    assert sorted(set(OTHER_USES) - found.keys()) == [], "remove these lines"


def test_only_a_wait_whose_outcomes_are_ignored_is_accepted() -> None:
    source = "async def f(a):\n    await asyncio.gather(*a, return_exceptions=True)\n    await asyncio.gather(*a)\n"
    source += "    return await asyncio.gather(*a, return_exceptions=True)\n\n\nfrom asyncio import gather\n"
    assert sorted(refused_uses(ast.parse(source))) == [3, 4, 7]
