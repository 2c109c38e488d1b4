"""`kb_shared` has what at least two services use; what only one uses belongs to that service."""

from typing import Final

import grimp
import pytest

SERVICES: Final = ("kb_api", "kb_console", "kb_indexer", "kb_knowledge", "kb_reconciler", "kb_search")

EXCEPTIONS: Final[dict[str, str]] = {}
"""Packages and modules that one service uses so far, each with the reason why it stays."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("kb_shared", *SERVICES)


def users(graph: grimp.ImportGraph, module: str) -> set[str]:
    """Name the services that import a module, directly or through others of `kb_shared`."""
    return {found.split(".")[0] for found in graph.find_downstream_modules(module)} & set(SERVICES)


def modules_of_one_service(graph: grimp.ImportGraph) -> set[str]:
    modules = {
        module for module in graph.modules if module.startswith("kb_shared.") and not graph.find_children(module)
    }
    return {module for module in modules if len(users(graph, module)) < 2}


def excepted_by(module: str) -> set[str]:
    return {exception for exception in EXCEPTIONS if f"{module}.".startswith(f"{exception}.")}


def test_what_is_shared_is_used_by_two_services(graph: grimp.ImportGraph) -> None:
    refused = {module: users(graph, module) for module in modules_of_one_service(graph) if not excepted_by(module)}
    assert refused == {}, "move it to the service that uses it, or name the exception with its reason"


def test_each_exception_is_needed(graph: grimp.ImportGraph) -> None:
    assert {each for module in modules_of_one_service(graph) for each in excepted_by(module)} == EXCEPTIONS.keys()
