"""The process that parses files, one after the other, with little memory and time and without a network.

It reads a request in JSON from each line of its input and answers with the length of a JSON text in eight bytes, and
the text. What it does with a file can't hurt: when it dies, `FileParser` starts another for the next file.
"""

import importlib
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from kb_client.files.cpu_limit import allow_cpu
from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument, WebLinks
from kb_client.files.formats import format_of
from kb_client.files.limits import ParseLimits
from kb_client.files.source_digest import digest_bytes, read_bounded

LENGTH_BYTES: Final = 8
_MAX_TITLE_CHARACTERS: Final = 300
_MOST_WARNINGS: Final = 20
"""Number of warnings that a document can have."""
_OLDEST_YEAR: Final = 1900
_MAX_RECURSION: Final = 10_000
_DAMAGED: Final = "open it and save it again, or export its text"


def main() -> None:
    """Answer requests until the input ends. The argument is `ExtractOptions` in JSON."""
    fields = json.loads(sys.argv[1])
    options = ExtractOptions(**{**fields, "limits": ParseLimits(**fields["limits"])})
    answers = _take_output()
    _limit_process(options.limits)
    sys.addaudithook(_refuse_network)
    # Old HTML generators nest some pages by thousands.
    sys.setrecursionlimit(_MAX_RECURSION)
    # openpyxl would import it for types that no file contains; that takes longer than all the rest.
    sys.modules["numpy"] = None  # type: ignore[assignment]  # this is how an import is made to fail
    for line in sys.stdin.buffer:
        allow_cpu(options.limits)
        answer = _answer(Path(json.loads(line)["path"]), options)
        encoded = json.dumps(answer, ensure_ascii=False).encode()
        answers.write(len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded)
        answers.flush()
        if answer.get("last"):
            return


def _answer(path: Path, options: ExtractOptions) -> dict[str, Any]:
    try:
        form = format_of(path)
        data = read_bounded(path, options.limits)
        module = importlib.import_module(f"kb_client.files.formats.{form.module}")
        return _to_json(module.extract(data, options), digest_bytes(data), options.limits)
    except UnreadableDocument as error:
        return _problem(error.reason, error.remedy)
    except ModuleNotFoundError as error:
        return _problem(
            f"the package {error.name!r} is not installed",
            "it comes with the extra files of kb-client, or `make install`",
        )
    except (MemoryError, SystemError):
        # Parsers in C raise the latter. What is left of the memory may be too little for the next file.
        megabytes = options.limits.memory_bytes // 1_000_000
        return _problem(f"reading it takes more than {megabytes} MB of memory", "split it") | {"last": True}
    except RecursionError:
        return _problem("its parts are nested too deeply", _DAMAGED)
    except Exception:  # noqa: BLE001  # libraries raise anything on damaged files
        return _problem(f"it can't be read as a {path.suffix.lower()} file: it may be damaged", _DAMAGED)


def _to_json(extraction: Extraction, source_digest: str, limits: ParseLimits) -> dict[str, Any]:
    if not extraction.text.strip() and extraction.web_links is None:
        raise UnreadableDocument("it has no text", "; ".join(extraction.warnings) or "leave it out")
    text = _storable(extraction.text)
    if len(text.encode()) > limits.text_bytes:
        raise UnreadableDocument(f"its text has more than {limits.text_bytes // 1_000_000} MB", "split it")
    return {
        "text": text,
        "title": _one_line(extraction.title),
        "date": _usable_date(extraction.date),
        "pages": extraction.pages,
        "warnings": extraction.warnings[:_MOST_WARNINGS],
        "source_digest": source_digest,
        "web_links": _storable_links(extraction.web_links),
    }


def _storable_links(web_links: WebLinks | None) -> dict[str, Any] | None:
    if web_links is None:
        return None
    fields = asdict(web_links)
    for name in ("base", "canonical"):
        fields[name] = fields[name] and _storable(fields[name])
    return fields | {"links": [_storable(link) for link in web_links.links]}


def _problem(reason: str, remedy: str) -> dict[str, Any]:
    return {"problem": {"reason": reason, "remedy": remedy}}


def _storable(text: str) -> str:
    """Replace what an event refuses, each character by one, so that the positions of pages stay right."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _one_line(title: str | None) -> str | None:
    printable = "".join(character if character.isprintable() else " " for character in title or "")
    return _storable(" ".join(printable.split()))[:_MAX_TITLE_CHARACTERS] or None


def _usable_date(date: datetime | None) -> str | None:
    """Return a date in UTC, unless a clock that was wrong has made it."""
    with suppress(OverflowError):
        if date and _OLDEST_YEAR < date.year <= datetime.now(UTC).year + 1:
            return date.astimezone(UTC).isoformat()
    return None


def _take_output() -> BinaryIO:
    """Return the output for answers, and let everything that libraries print go nowhere."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return answers


def _limit_process(limits: ParseLimits) -> None:
    # Windows has no such limits; there, only the time on the clock is limited.
    with suppress(ImportError):
        import resource

        wanted = {
            resource.RLIMIT_AS: limits.memory_bytes,
            resource.RLIMIT_CORE: 0,
            # No file can be written.
            resource.RLIMIT_FSIZE: 0,
        }
        for kind, value in wanted.items():
            # macOS refuses limits of the address space.
            with suppress(ValueError, OSError):
                resource.setrlimit(kind, (value, value))


def _refuse_network(event: str, _arguments: tuple[Any, ...]) -> None:
    if event.startswith("socket."):
        raise PermissionError("a parser uses no network")


def options_to_json(options: ExtractOptions) -> str:
    """Return the argument of the process."""
    return json.dumps(asdict(options))


if __name__ == "__main__":
    main()
