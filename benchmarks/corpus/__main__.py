"""`python -m benchmarks.corpus --to FOLDER`: makes a corpus of real documents from Debian's documentation packages.

Downloads packages with `apt-get download` (85 MB), unpacks them without root, reads their HTML pages, removes
navigation and pages with equal texts, and writes `documents.jsonl`: one JSON object per line with `document_id`,
`name`, `language`, `tag_ids` and `text`. The order and the contents depend on the versions of the packages only.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.corpus.documents import CorpusSelection, select_documents, write_documents
from benchmarks.corpus.packages import PACKAGES, PackageDownloadFailed, fetch_packages, list_pages
from kb_shared.chunking import count_tokens

FILE = "documents.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus", description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000, help="number of documents (default: 10,000)")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help=f"gets {FILE} and the packages")
    parser.add_argument(
        "--packages", nargs="+", default=PACKAGES, metavar="PACKAGE", help="instead of the default ones"
    )
    options = parser.parse_args()
    try:
        figures = _make(options)
    except PackageDownloadFailed as error:
        sys.exit(str(error))
    print(json.dumps(figures, indent=2))


def _make(options: argparse.Namespace) -> dict[str, Any]:
    began = monotonic()
    packages_folder = options.to / "packages"
    fetch_packages(options.packages, packages_folder)
    fetched = monotonic()
    selection = select_documents(list_pages(options.packages, packages_folder), most=options.documents)
    write_documents(selection.documents, options.to / FILE)
    if len(selection.documents) < options.documents:
        print(f"only {len(selection.documents)} documents in these packages", file=sys.stderr)
    return {
        "file": str(options.to / FILE),
        **_sizes(selection),
        "seconds": {"download": round(fetched - began, 1), "read": round(monotonic() - fetched, 1)},
    }


def _sizes(selection: CorpusSelection) -> dict[str, Any]:
    documents = selection.documents
    return {
        "documents": len(documents),
        "bytes_of_text": sum(len(each.text.encode()) for each in documents),
        "tokens": sum(count_tokens(each.text) for each in documents),
        "languages": dict(Counter(each.language for each in documents).most_common()),
        "packages": dict(sorted(Counter(each.tag_ids[0] for each in documents).items())),
        "pages_read": selection.pages,
        "left_out": {"short": selection.short, "long": selection.long, "doubled": selection.doubled},
    }


if __name__ == "__main__":
    main()
