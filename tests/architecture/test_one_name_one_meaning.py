"""A class has a name of its own in the whole repository, so that a search for the name finds one thing.

A type alias is a name, too. It may be repeated with the same definition, and as a dependency of routes on the class
that it is named after. Test classes may share a name with each other, such as fake clocks, but not with other code.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("benchmarks", "client", "contracts", "local", "scripts", "services", "shared")
_DEPENDENCIES: Final = "dependencies.py"
TWO_MEANINGS: Final = {
    "KnowledgeBase": "kb_client.knowledge has the names of other libraries, so that programs change an import only",
}
"""Names that two classes have, with the reason."""


class Definition(NamedTuple):
    name: str
    """Name without a leading underscore."""
    place: str
    text: str
    """Definition of an alias; the place of a class, since two classes are never the same."""


def definitions(place: str, tree: ast.Module) -> Iterator[Definition]:
    """Yield the classes and the type aliases of a module."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                yield Definition(name.lstrip("_"), place, place)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if _is_type_name(name) and not _is_type_variable(value):
                yield Definition(name.lstrip("_"), place, ast.unparse(value))


def ambiguous(found: Iterable[Definition]) -> dict[str, list[str]]:
    """Return the names with more than one meaning, each with the places of its definitions."""
    by_name: dict[str, list[Definition]] = {}
    for definition in found:
        by_name.setdefault(definition.name, []).append(definition)
    return {
        name: sorted(each.place for each in same_name)
        for name, same_name in by_name.items()
        if len({each.text for each in same_name}) > 1
    }


def _is_type_name(name: str) -> bool:
    bare = name.lstrip("_")
    return bare[:1].isupper() and not bare.isupper()


def _is_type_variable(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in {"TypeVar", "ParamSpec"}
    )


def _all_in(*folders: str) -> list[Definition]:
    return [
        definition
        for folder in folders
        for source in sorted((ROOT / folder).rglob("*.py"))
        for definition in definitions(str(source.relative_to(ROOT)), ast.parse(source.read_text()))
        if source.name != _DEPENDENCIES or definition.text == definition.place
    ]


@pytest.fixture(scope="module")
def production() -> list[Definition]:
    found = _all_in(*FOLDERS)
    assert len(found) > 500
    return found


def test_a_name_has_one_definition(production: list[Definition]) -> None:
    assert ambiguous(production).keys() == TWO_MEANINGS.keys()


def test_no_test_class_has_the_name_of_other_code(production: list[Definition]) -> None:
    names = {each.name for each in production}
    assert [each for each in _all_in("tests") if each.name in names and each.text == each.place] == []


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["class Job: ...", "class Job: ..."], {"Job": ["0.py", "1.py"]}),
        (["class Job: ...", "class _Job: ..."], {"Job": ["0.py", "1.py"]}),
        (["class Job: ...", "Job = str | None"], {"Job": ["0.py", "1.py"]}),
        (["Job: TypeAlias = str", "Job = int"], {"Job": ["0.py", "1.py"]}),
        (["Job = str | None", "Job: TypeAlias = str | None"], {}),
        (["class Job: ...", "Job = TypeVar('Job')"], {}),
        (["JOB = 1", "JOB = 2"], {}),
        (["class Job: ...", "class Jobs: ..."], {}),
    ],
)
def test_the_check_finds_what_it_looks_for(sources: list[str], expected: dict[str, list[str]]) -> None:
    found = [each for n, source in enumerate(sources) for each in definitions(f"{n}.py", ast.parse(source))]
    assert ambiguous(found) == expected
