"""The mutants can be planted, and the tests named for them are there."""

import ast
from collections import Counter
from functools import cache

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import ROOT, Mutant


def test_every_mutant_has_a_name_of_its_own() -> None:
    assert [name for name, times in Counter(mutant.name for mutant in MUTANTS).items() if times > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_another_program(mutant: Mutant) -> None:
    assert ast.dump(ast.parse(mutant.changed())) != program_of(mutant.file)


@cache
def program_of(file: str) -> str:
    """Return what the file says, apart from comments and format."""
    return ast.dump(ast.parse((ROOT / file).read_text()))


def test_every_test_that_must_notice_a_mutant_is_there() -> None:
    named = {test for mutant in MUTANTS for test in mutant.caught_by}
    there = {f"{file}::{name}" for file in {test.partition("::")[0] for test in named} for name in functions_of(file)}
    assert named - there == set()
    assert all(mutant.caught_by for mutant in MUTANTS)


def functions_of(file: str) -> list[str]:
    tree = ast.parse((ROOT / file).read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
