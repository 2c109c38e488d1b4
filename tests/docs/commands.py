"""Reads the commands of a Markdown page: what to run, what it must print, and why something is not run.

Commands are in fenced blocks of two languages:

    console    `$ ` begins a command. It goes on while a line ends with a backslash, a quote is open or a here-document
               has not ended. The lines after it, if any, are what it must print; `...` stands for anything.
    sh         the whole block is one command.

A block after the comment `<!-- not run: reason -->` is not run. In a runbook, the comments `<!-- run: diagnose -->` and
`<!-- run: resolve -->` name the step of a block that only `make test-alerts` runs, after it has injected the fault.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

LANGUAGES: Final = ("console", "sh")
PROMPT: Final = "$ "
_FENCED: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_NOT_RUN: Final = re.compile(r"<!-- not run: (?P<reason>[^\n]+) -->\n\s*\Z")
_STEP: Final = re.compile(r"<!-- run: (?P<step>diagnose|resolve) -->\n\s*\Z")
_HERE_DOCUMENT: Final = re.compile(r"<<'?(?P<end>\w+)'?")
_OF_MAKE: Final = re.compile(r"make (?P<targets>[a-z -]+?)(\s+#.*)?")

RunbookStep: TypeAlias = Literal["diagnose", "resolve"]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block of any language."""

    line: int
    """Line of the page at which the block begins, from 1."""
    language: str
    text: str
    not_run: str | None
    """Reason for not running the block."""
    step: RunbookStep | None = None
    """Step of a runbook, which needs its fault."""


@dataclass(frozen=True, slots=True)
class DocumentedCommand:
    """A command and what it prints according to the page."""

    line: int
    text: str
    output: str
    """Expected output; empty if the page shows none."""

    @property
    def make_targets(self) -> list[str]:
        """Targets of a command that only calls `make`; empty for every other command."""
        matched = _OF_MAKE.fullmatch(self.text.strip())
        return matched["targets"].split() if matched else []


def parse_blocks(markdown: str) -> list[CodeBlock]:
    """Return all fenced blocks of a page."""
    found = []
    for match in _FENCED.finditer(markdown):
        before = markdown[: match.start()]
        reason, step = _NOT_RUN.search(before), _STEP.search(before)
        found.append(
            CodeBlock(
                line=before.count("\n") + 1,
                language=match["language"],
                text=textwrap.dedent(match["body"]),
                not_run=reason["reason"] if reason else None,
                step=cast("RunbookStep", step["step"]) if step else None,
            )
        )
    return found


def parse_commands(block: CodeBlock) -> list[DocumentedCommand]:
    """Return the commands of a block, in order; none if it is of another language."""
    if block.language == "sh":
        return [DocumentedCommand(block.line + 1, block.text, "")]
    return [*_console(block)] if block.language == "console" else []


def runnable_commands(markdown: str) -> list[DocumentedCommand]:
    """Return the commands of a page that a test can run: no block with a reason or a step, and no call of `make`."""
    return [
        command
        for block in parse_blocks(markdown)
        if block.not_run is None and block.step is None
        for command in parse_commands(block)
        if not command.make_targets
    ]


def commands_of_step(markdown: str, step: RunbookStep) -> list[DocumentedCommand]:
    """Return the commands of one step of a runbook."""
    return [command for block in parse_blocks(markdown) if block.step == step for command in parse_commands(block)]


def _console(block: CodeBlock) -> Iterator[DocumentedCommand]:
    lines = block.text.splitlines()
    number = 0
    while number < len(lines):
        assert lines[number].startswith(PROMPT), f"line {block.line + 1 + number} is output of no command"
        first, text = number, lines[number].removeprefix(PROMPT)
        while _is_incomplete(text):
            number += 1
            text += "\n" + lines[number]
        number += 1
        output = []
        while number < len(lines) and not lines[number].startswith(PROMPT):
            output.append(lines[number])
            number += 1
        yield DocumentedCommand(block.line + 1 + first, text, "\n".join(output))


def _is_incomplete(text: str) -> bool:
    if here := _HERE_DOCUMENT.search(text):
        return text.splitlines()[-1] != here["end"]
    if text.endswith("\\"):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:  # no closing quotation
        return True
    return False
