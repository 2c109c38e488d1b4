"""The architecture page, and the page of each package, name files and tests that exist; each rule has a test."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text()
RULE = re.compile(r"^### Rule (?P<number>\d): .*?(?=^##)", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`(?P<path>(?:client|contracts|local|services|shared|tests)/[\w./-]+)`")
OF_PACKAGE = re.compile(r"`(?P<path>kb_\w+/[\w./-]+)`")
OF_TESTS = re.compile(r"\btests/[\w/]+(?:\.py)?")
TESTS = re.compile(r"^- `(?P<file>tests/[\w/]+\.py)`:(?P<names>(?:\s+`\w+`,?)+)", re.MULTILINE)
NUMBERED = re.compile(r"\brules? (?P<number>\d)\b(?P<end>[^\n]*)")
PAGE_NAME = "docs/explanation/architecture.md"


def test_every_file_that_the_page_names_exists() -> None:
    named = {match["path"] for match in PATH.finditer(PAGE)}
    assert len(named) > 50
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_file_that_the_page_of_a_package_names_exists() -> None:
    packages = [*ROOT.glob("services/*"), ROOT / "contracts", ROOT / "shared", ROOT / "client", ROOT / "local"]
    for package in packages:
        named = {match["path"] for match in OF_PACKAGE.finditer((package / "README.md").read_text())}
        assert named, package
        assert [path for path in sorted(named) if not (package / path).exists()] == [], package
        tests = set(OF_TESTS.findall((package / "README.md").read_text()))
        assert [path for path in sorted(tests) if not (ROOT / path).exists()] == [], package


def test_there_are_seven_rules_and_each_names_a_reason_its_code_and_tests() -> None:
    rules = {int(match["number"]): match[0] for match in RULE.finditer(PAGE)}
    assert sorted(rules) == [1, 2, 3, 4, 5, 6, 7]
    for number, text in rules.items():
        for part in ("*Reason.*", "*How.*", "*Code.*", "*Tests.*"):
            assert part in text, (number, part)
        assert TESTS.search(text), number


def test_every_test_that_the_page_names_is_in_the_file_that_it_names() -> None:
    missing = []
    for match in TESTS.finditer(PAGE):
        source = (ROOT / match["file"]).read_text()
        names = re.findall(r"`(test_\w+)`", match["names"])
        assert names, match["file"]
        missing += [name for name in names if f"def {name}(" not in source]
    assert missing == []


def test_code_that_refers_to_a_rule_by_number_names_the_page() -> None:
    sources = [
        *ROOT.glob("services/**/*.py"),
        *ROOT.glob("contracts/**/*.py"),
        *ROOT.glob("shared/**/*.py"),
        *ROOT.glob("tests/unit/**/*.py"),
    ]
    for source in sources:
        text = source.read_text()
        for match in NUMBERED.finditer(text):
            assert PAGE_NAME in text[match.start() : match.end() + 120], f"{source}: {match[0]}"
