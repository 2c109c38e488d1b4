"""The programs of the page about publishing, as they are there."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.docs.commands import parse_blocks
from tests.producers.clients import HERE, PYTHON, ROOT, Command, build_go, compile_java, java_command, node_modules

PAGE: Final = ROOT / "docs/how-to/publish-events.md"
_FILE_NAME: Final = re.compile(r"(?://|#) (?P<name>[\w-]+\.(?:java|py|go|mjs))\n")
_PLACEHOLDERS: Final = ("127.0.0.1:9092", "document-events", "offer-17")


def programs() -> dict[str, str]:
    """Return the programs by the file name in their first line."""
    found = {}
    for block in parse_blocks(PAGE.read_text(encoding="utf-8")):
        if named := _FILE_NAME.match(block.text):
            found[named["name"]] = block.text
    return found


def filled_in(program: str, *, bootstrap: str, topic: str, document_id: str) -> str:
    """Return a program with the address, the topic and the document of a test."""
    for placeholder, value in zip(_PLACEHOLDERS, (bootstrap, topic, document_id), strict=True):
        assert placeholder in program, f"the program has no {placeholder}"
        program = program.replace(placeholder, value)
    return program


def prepare(name: str, program: str, folder: Path) -> Command:
    """Write a program to its file and return the command that runs it."""
    file = folder / name
    file.write_text(program, encoding="utf-8")
    return _PREPARE[file.suffix](file)


def _java(file: Path) -> Command:
    return java_command(compile_java(file, file.parent / "classes"), file.stem)


def _go(file: Path) -> Command:
    for of_module in ("go.mod", "go.sum"):
        shutil.copy(HERE / "go" / of_module, file.parent)
    return [build_go(file.parent, file.with_suffix(""))]


def _node(file: Path) -> Command:
    (file.parent / "node_modules").symlink_to(node_modules() / "node_modules")
    return ["node", file]


_PREPARE: Final[Mapping[str, Callable[[Path], Command]]] = {
    ".java": _java,
    ".go": _go,
    ".mjs": _node,
    ".py": lambda file: [PYTHON, file],
}
