"""The tables of docs/reference/errors.md name what the code raises, and nothing else.

Slugs, statuses, reasons and error types are read from the source: the calls and assignments that give them.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from kb_shared.errors import Parked, PermanentError, ProviderUnavailable
from kb_shared.providers.provider_errors import MEANING_OF_CLASS, Failure, classified

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference/errors.md").read_text()
SOURCES = [
    *ROOT.glob("services/**/*.py"),
    *ROOT.glob("contracts/**/*.py"),
    *ROOT.glob("shared/**/*.py"),
    ROOT / "local/kb_local/gateway.py",
]
SECTION = re.compile(r"^## (?P<title>.+?)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(?P<name>[a-z0-9_-]+)` \| (?P<second>[^|]*) \|", re.MULTILINE)
SLUG: Final = re.compile(r"[a-z]+(-[a-z]+)*")
OF_PROBLEMS: Final = {
    "RequestError": (0, 1),
    "problem": (1, 2),
    "problem_body": (0, 1),
    "_problem": (1, 2),
    "_refuse": (0, 1),
    "__init__": (0, 1),
}
"""Positions of status and slug in the arguments of what makes problems."""
NOT_OF_DOCUMENTS: Final = {"model_not_allowed"}
"""Only chat models are restricted: a run shows this as the problem `model-not-allowed`."""


def rows(*titles: str) -> dict[str, str]:
    """Return the first two columns of the tables in these sections."""
    found: dict[str, str] = {}
    for section in SECTION.finditer(REFERENCE):
        if section["title"] in titles:
            for row in ROW.finditer(section["body"]):
                assert row["name"] not in found, f"{row['name']} has two rows"
                found[row["name"]] = row["second"]
    return found


def sections_of_problems() -> list[str]:
    return [section["title"] for section in SECTION.finditer(REFERENCE) if "| type | status |" in section["body"]]


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for source in SOURCES:
        yield source, ast.parse(source.read_text())


def strings(node: ast.AST | None) -> set[str]:
    """Return the strings that an expression can give."""
    match node:
        case ast.Constant(value=str() as value):
            return {value}
        case ast.IfExp(body=body, orelse=orelse):
            return strings(body) | strings(orelse)
    return set()


def status_of(node: ast.AST) -> int | None:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Attribute(value=ast.Name(id="HTTPStatus"), attr=name):
            return int(HTTPStatus[name])
    return None


def name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def assigned(tree: ast.AST, variable: str) -> set[str]:
    """Return the strings that `tree` assigns to a variable, a class attribute or a parameter by default."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == variable:
                found |= strings(value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for target, value in zip(names, values, strict=True):
                    found |= strings(value) if isinstance(target, ast.Name) and target.id == variable else set()
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if name == variable:
                found |= strings(value)
            case ast.arguments(kwonlyargs=arguments, kw_defaults=defaults):
                for argument, default in zip(arguments, defaults, strict=True):
                    found |= strings(default) if argument.arg == variable else set()
    return found


def keywords(tree: ast.AST, keyword: str) -> set[str]:
    """Return the strings that calls give for a keyword."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {text for call in calls for given in call.keywords if given.arg == keyword for text in strings(given.value)}


def problems() -> Mapping[str, set[str]]:
    """Return each slug of a problem with its statuses; `4xx` stands for one that only shows at run time."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for source, tree in trees():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            at_status, at_slug = OF_PROBLEMS.get(name_of(call), (0, len(call.args)))
            if len(call.args) <= at_slug:
                continue
            status, slug = status_of(call.args[at_status]), call.args[at_slug]
            if status is None and not strings(slug):
                continue  # passes on what another call was given
            slugs = strings(slug) or (assigned(tree, slug.id) if isinstance(slug, ast.Name) else set())
            slugs |= keywords(tree, "slug") if isinstance(slug, ast.Name) else set()
            assert slugs, f"{source}:{call.lineno} gives a slug that this test can't read"
            for each in slugs:
                found[each].add(str(status or "4xx"))
    # A filter error with another slug than the default is made in another file.
    for _, tree in trees():
        for each in keywords(tree, "slug"):
            found[each].add("422")
    return found


def test_every_problem_is_documented_with_its_statuses_and_no_other_is() -> None:
    documented = {slug: set(statuses.split(", ")) for slug, statuses in rows(*sections_of_problems()).items()}
    assert documented == problems()
    assert all(SLUG.fullmatch(slug) for slug in documented)


def test_every_reason_of_a_dead_letter_is_documented_and_no_other_is() -> None:
    reasons = set()
    for _, tree in trees():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if name_of(call) in {"Rejected", "DeadLetterReason"} and call.args:
                given = call.args[0]
                reasons |= strings(given) or (assigned(tree, given.id) if isinstance(given, ast.Name) else set())
    assert reasons == rows("Reasons of dead letters").keys()


def test_every_reason_of_an_unsendable_message_is_documented_and_no_other_is() -> None:
    reasons = set()
    for _, tree in trees():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if name_of(call) == "MessageRefused":
                reasons |= {text for given in call.keywords if given.arg == "reason" for text in strings(given.value)}
    assert reasons == rows("Reasons of unsendable messages").keys()


def test_every_error_type_of_a_document_is_documented_and_no_other_is() -> None:
    types = of_providers() | of_jobs()
    for _, tree in trees():
        types |= keywords(tree, "error_type") | assigned(tree, "error_type")
        for node in ast.walk(tree):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(values=values))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=values))
                ) if name.endswith("ERROR_TYPES"):
                    types |= {text for value in values for text in strings(value)}
    assert types - NOT_OF_DOCUMENTS == rows("Error types of documents").keys()


def of_providers() -> set[str]:
    """Return what the answers of providers are classified as."""
    found = set()
    for name in MEANING_OF_CLASS:
        _, error = classified("model", Failure([name]))
        assert isinstance(error, ProviderUnavailable | PermanentError | Parked)
        found.add(error.error_type)
    return found


def of_jobs() -> set[str]:
    """Return what the handler of commands says of errors that have no type of their own."""
    files = [ROOT / "services/indexer/kb_indexer" / name for name in ("sync_document.py", "sync_failures.py")]
    found: set[str] = set()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        match node:
            case ast.FunctionDef(name="_error_type"):
                returns = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
                found |= {text for value in returns for text in strings(value)}
            case ast.Call(args=[_, ast.Constant(value=str() as text), *_]) if name_of(node) == "fail_document":
                found.add(text)
    return found
