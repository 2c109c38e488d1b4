"""Prints how many files of the corpus are read as a person sees them, by format.

With `--markitdown PYTHON`, a Python that has markitdown reads the same files. It is asked for texts alone, not for
warnings and titles, and for the values of tables in their order, without the names of their columns.
"""

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kb_client.files.file_parser import FileParser
from tests.files.case import Case
from tests.files.reading import CASES, faults, write

_CONVERT: Final = """
import json, sys, warnings
from markitdown import MarkItDown
warnings.simplefilter("ignore")
reader, texts = MarkItDown(), {}
for path in json.load(sys.stdin):
    try:
        texts[path] = reader.convert(path).text_content
    except Exception:
        texts[path] = ""
print(json.dumps(texts))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markitdown", metavar="PYTHON", help="a Python that has markitdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FileParser() as reader:
        found = {case.id: problems for case in CASES if (problems := faults(reader, case, Path(folder)))}
        others = _markitdown_faults(options.markitdown, Path(folder)) if options.markitdown else None
    for name, problems in found.items():
        print(f"{name}: {'; '.join(problems)}")
    print(_table(found, others))


def _markitdown_faults(python: str, folder: Path) -> set[str]:
    """Return the ids of the cases whose text markitdown does not give."""
    paths: dict[str, Case] = {}
    for at, case in enumerate(CASES):
        (folder / str(at)).mkdir()
        paths[str(write(case, folder / str(at)))] = case
    answer = subprocess.run(
        [python, "-c", _CONVERT], input=json.dumps(list(paths)), capture_output=True, text=True, check=True
    )
    return {paths[path].id for path, text in json.loads(answer.stdout).items() if _values(paths[path]).lacks(text)}


def _values(case: Case) -> Case:
    """Return a case that expects `4` where it expected `Crew: 4`: a Markdown table names its columns once."""
    return replace(
        case,
        shows=tuple(each.rpartition(": ")[2] if isinstance(each, str) else each for each in case.shows),
    )


def _table(found: Mapping[str, Sequence[str]], others: set[str] | None) -> str:
    totals = Counter(case.suffix for case in CASES)
    ours = Counter(case.suffix for case in CASES if case.id not in found)
    theirs = Counter(case.suffix for case in CASES if others is not None and case.id not in others)
    lines = ["| format | files | as seen |" + (" markitdown |" if others is not None else "")]
    lines.append("|---|---|---|" + ("---|" if others is not None else ""))
    for name, count in [*sorted(totals.items()), ("all", totals.total())]:
        right = ours.total() if name == "all" else ours[name]
        line = f"| {name} | {count} | {right} |"
        if others is not None:
            line += f" {theirs.total() if name == 'all' else theirs[name]} |"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
