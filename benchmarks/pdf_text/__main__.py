"""`python -m benchmarks.pdf_text`: words and paragraphs of PDFs of known texts, made by several programs.

Programs that are not here are named and left out: groff, chromium, LibreOffice, and the packages weasyprint, reportlab
and fpdf2, which the project does not need. With `--pdftotext`, what that program reads of the same files is shown too.
With `--files`, other PDFs are read: words that `pdftotext` does not find in them, and the time that reading takes.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.pdf_text.measures import Differences, compare
from benchmarks.pdf_text.producers import find_producers
from benchmarks.pdf_text.sources import read_sources
from kb_client.files.extraction import ExtractOptions
from kb_client.files.formats.pdf.document import extract
from kb_client.files.limits import ParseLimits

_WORD: Final = re.compile(r"\w+")
_SHOWN: Final = 12


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pdf_text", description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder for the PDFs that are made, and used again if they are there")
    parser.add_argument("--pdftotext", help="path of pdftotext, to compare with")
    parser.add_argument("--files", type=Path, nargs="+", help="read these instead")
    options = parser.parse_args()
    if options.files:
        for path in options.files:
            print(json.dumps({"file": path.name, **_read(path, options.pdftotext)}), flush=True)
        return
    _compare_all(options.keep, options.pdftotext)


def _compare_all(keep: Path | None, pdftotext: str | None) -> None:
    producers, missing = find_producers()
    if missing:
        print(f"not here: {', '.join(missing)}", file=sys.stderr)
    ours: list[Differences] = []
    theirs: list[Differences] = []
    for (name, make), blocks in zip(producers.items(), read_sources(len(producers)), strict=True):
        path = keep / f"{name.replace(' ', '-')}.pdf" if keep else None
        data = path.read_bytes() if path and path.exists() else make(blocks)
        if path and not path.exists():
            path.write_bytes(data)
        ours.append(compare(blocks, _extract(data)[0]))
        print(json.dumps({"made by": name, **_row(ours[-1]), "shown": ours[-1].shown[:_SHOWN]}), flush=True)
        if pdftotext:
            theirs.append(compare(blocks, _ask(pdftotext, data)))
            print(json.dumps({"pdftotext": name, **_row(theirs[-1])}), flush=True)
    for reader, rows in (("kb-client", ours), ("pdftotext", theirs)):
        if rows:
            words, errors = sum(row.words for row in rows), sum(row.errors for row in rows)
            print(
                json.dumps(
                    {
                        "reader": reader,
                        "files": len(rows),
                        "words": words,
                        "errors": errors,
                        "%": round(100 * errors / words, 3),
                    }
                )
            )


def _row(found: Differences) -> dict[str, object]:
    share = round(100 * found.errors / found.words, 3)
    whole, kept = f"{found.whole}/{found.paragraphs}", f"{found.kept}/{found.lines}"
    return {"words": found.words, "errors": found.errors, "%": share, "whole paragraphs": whole, "lines kept": kept}


def _extract(data: bytes) -> tuple[str, float]:
    begin = time.process_time()
    text = extract(data, ExtractOptions(ParseLimits())).text
    return text, time.process_time() - begin


def _ask(pdftotext: str, data: bytes) -> str:
    run = subprocess.run([pdftotext, "-", "-"], input=data, capture_output=True, check=True, timeout=60)  # noqa: S603  # named by who measures
    return run.stdout.decode()


def _read(path: Path, pdftotext: str | None) -> dict[str, object]:
    data = path.read_bytes()
    text, seconds = _extract(data)
    words = _WORD.findall(text)
    row: dict[str, object] = {"words": len(words), "cpu_s": round(seconds, 2)}
    if pdftotext:
        known = _ask(pdftotext, data)
        vocabulary = {*_WORD.findall(known), *_WORD.findall(re.sub(r"[-\u00ad\u2010]\n+", "", known))}
        others = [word for word in words if word not in vocabulary]
        row |= {"others": len(others), "%": round(100 * len(others) / len(words), 3), "shown": _first(others)}
    return row


def _first(words: Sequence[str]) -> list[str]:
    return [word for word, _ in Counter(words).most_common(_SHOWN)]


if __name__ == "__main__":
    main()
