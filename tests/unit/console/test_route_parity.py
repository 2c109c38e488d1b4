"""Every operation of the API can be reached from the console, or there is a reason why not."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import kb_console

OPENAPI: Final = Path(__file__).parents[3] / "docs" / "openapi.json"
SOURCES: Final = sorted(Path(kb_console.__file__).parent.rglob("*.py"))
COMPOSED: Final = {
    "documents.upload": {"documents.put", "documents.store_text"},
    "usage.get_csv": {"usage.get"},
    "runs.stream": {"runs.create"},
}
"""Methods of the client that are no operation themselves, with those that they call."""

SAME_EFFECT: Final = {
    "documents.delete": "documents.batch",
    "documents.replace_metadata": "documents.batch",
    "documents.replace_tags": "documents.batch",
    "agents.update_named_tool": "agents.update_tool",
}
"""Operations that do for one thing, or by another name, what another operation does that pages call."""

NOT_IN_CONSOLE: Final = {
    "events.list": "for programs: pages show the states that events announce",
    "insights.list_documents": "`insights.list_citations` shows the same of one knowledge base and of all",
    "documents.list_chunks": "`knowledge_bases.list_chunks` shows the same",
    "graph.get_edge": "`graph.list_edges` shows the same of all edges",
    "knowledge.retrieve": "for programs: it returns sections of a prompt, and changes nothing",
    "knowledge_bases.list_metadata_keys": "for programs: the search test says which key can't be filtered by",
    "knowledge_sources.get_run": "`knowledge_sources.list_runs` shows the same of all runs",
    "pushed_folders.get": "for the command line: a browser does not tell where a folder is",
    "pushed_folders.put": "for the command line: a browser does not tell where a folder is",
}
"""Operations that change nothing that a page shows, each with the reason why no page needs it."""
OTHERS_THAN_GET: Final = {"knowledge.retrieve", "pushed_folders.put"}
MOST_LEFT_OUT: Final = 15


def _operations() -> dict[str, str]:
    """Return the method of HTTP of each operation."""
    paths = json.loads(OPENAPI.read_text())["paths"]
    return {
        operation["operationId"]: method
        for operations in paths.values()
        for method, operation in operations.items()
        if "operationId" in operation
    }


def _dotted_names(source: str) -> Iterator[str]:
    """Yield the last two parts of all attributes, such as `budget.get` of `visit.api.budget.get`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Attribute(attr=resource) | ast.Name(id=resource), attr=method):
                yield f"{resource}.{method}"


def _reached() -> set[str]:
    named = {name for path in SOURCES for name in _dotted_names(path.read_text())}
    named = named.union(*(called for name, called in COMPOSED.items() if name in named))
    return named | {name for name, same in SAME_EFFECT.items() if same in named}


def test_every_operation_is_reachable_or_there_is_a_reason_why_not() -> None:
    left_out = _operations().keys() - _reached()
    assert left_out - NOT_IN_CONSOLE.keys() == set()
    assert NOT_IN_CONSOLE.keys() <= left_out, "what a page calls needs no reason"


def test_what_is_left_out_changes_nothing_and_is_little() -> None:
    operations = _operations()
    assert {name for name in NOT_IN_CONSOLE if operations[name] != "get"} <= OTHERS_THAN_GET
    assert operations.keys() >= SAME_EFFECT.keys()
    assert len(NOT_IN_CONSOLE) <= MOST_LEFT_OUT
