"""Parses files in a process of their own, which is replaced when a file kills it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from kb_client.files.extraction import ExtractOptions, WebLinks
from kb_client.files.file_problem import FileProblem
from kb_client.files.formats import format_of
from kb_client.files.found_file import FoundFile
from kb_client.files.limits import ParseLimits
from kb_client.files.ocr import is_ocr_available
from kb_client.files.parsed_file import ParsedFile
from kb_client.files.parser_process import LENGTH_BYTES, options_to_json
from kb_contracts.documents import Page

_LANGUAGES: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\+[A-Za-z][A-Za-z0-9_]*)*")
_JSON_OVERHEAD: Final = 6
"""Characters that JSON needs for one, at most."""
_REST_BYTES: Final = 10_000_000
"""Room for titles, pages and warnings in an answer."""
_SAVE_AGAIN: Final = "open it and save it again, or export its text"


class OcrUnavailable(Exception):
    """OCR was asked for and can't be done. The message says what to do."""


class FileParser:
    """Parses one file at a time. A thread may call it; several wait for each other."""

    def __init__(
        self,
        limits: ParseLimits | None = None,
        *,
        ocr: bool = False,
        ocr_languages: str = "eng",
        web_links: bool = False,
    ) -> None:
        """Begin without a process: the first file starts it.

        Args:
            limits: limits for each file.
            ocr: recognize the text of pages that have none, with tesseract.
            ocr_languages: languages in the form of tesseract, such as `deu+eng`.
            web_links: also return the links of web pages, which then may have no text.

        Raises:
            OcrUnavailable: tesseract is not installed, or the languages are not written correctly.
        """
        if ocr and not is_ocr_available():
            raise OcrUnavailable("--ocr needs tesseract; install it, for example with apt-get install tesseract-ocr")
        if not _LANGUAGES.fullmatch(ocr_languages):
            raise OcrUnavailable("languages are written like deu+eng; tesseract --list-langs shows the installed ones")
        self._options = ExtractOptions(
            limits or ParseLimits(), ocr=ocr, ocr_languages=ocr_languages, web_links=web_links
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, also in the middle of a file."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
            _release(process)

    def parse(self, found: FoundFile) -> ParsedFile | FileProblem:
        """Return the document in a file, or why there is none. Nothing in the file makes it raise."""
        with self._lock:
            answer = self._ask(found)
        if isinstance(answer, FileProblem):
            return answer
        if problem := answer.get("problem"):
            return FileProblem(found.path, problem["reason"], problem["remedy"])
        return _to_parsed_file(found, answer)

    def _ask(self, found: FoundFile) -> dict[str, Any] | FileProblem:
        process = self._running_process()
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            _kill(process)

        timer = threading.Timer(self._wall_s, stop)
        timer.daemon = True
        timer.start()
        try:
            answer = self._exchange(process, str(found.path))
        finally:
            timer.cancel()
            timer.join()
        if answer is None or answer.get("last") or timed_out.is_set():
            self.close()
        if answer is None:
            return self._explain_death(found, process.wait(), timed_out=timed_out.is_set())
        return answer

    @property
    def _wall_s(self) -> float:
        limits = self._options.limits
        return limits.wall_s + (limits.pages * limits.ocr_page_s if self._options.ocr else 0.0)

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            # -P: files beside the documents must not be taken for modules. The session is for _kill, and keeps Ctrl-C
            # of the terminal away.
            command = [sys.executable, "-P", "-m", "kb_client.files.parser_process", options_to_json(self._options)]
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], path: str) -> dict[str, Any] | None:
        """Send a request and return the answer, or None if the process dies."""
        if process.stdin is None or process.stdout is None:
            raise TypeError("the process has no pipes")
        try:
            process.stdin.write(json.dumps({"path": path}).encode() + b"\n")
            process.stdin.flush()
            length = int.from_bytes(process.stdout.read(LENGTH_BYTES), "big")
            if not 0 < length <= self._options.limits.text_bytes * _JSON_OVERHEAD + _REST_BYTES:
                return None
            encoded = process.stdout.read(length)
        except (BrokenPipeError, ValueError):
            # Another thread has closed the parser, and its pipes raise the latter.
            return None
        return json.loads(encoded) if len(encoded) == length else None

    def _explain_death(self, found: FoundFile, returncode: int, *, timed_out: bool) -> FileProblem:
        limits = self._options.limits
        if timed_out:
            reason = f"reading it took longer than {self._wall_s:g} s"
        elif returncode == -getattr(signal, "SIGXCPU", 0):
            reason = f"reading it took more than {limits.cpu_s:g} s of CPU time"
        else:
            reason = (
                f"the parser crashed on it ({_describe_exit(returncode)}), "
                f"perhaps because it needs more than {limits.memory_bytes // 1_000_000} MB of memory"
            )
        return FileProblem(found.path, reason, _SAVE_AGAIN)


def _to_parsed_file(found: FoundFile, answer: dict[str, Any]) -> ParsedFile:
    modified_at = datetime.fromtimestamp(found.modified_at_ns / 1e9, UTC)
    return ParsedFile(
        document_id=found.document_id,
        document_name=answer["title"] or found.relative_path.rsplit("/", 1)[-1],
        text=answer["text"],
        pages=tuple(Page(page=page, start=start, end=end) for page, start, end in answer["pages"]),
        upload_date=datetime.fromisoformat(answer["date"]) if answer["date"] else modified_at,
        content_type=format_of(found.path).content_type,
        source_digest=answer["source_digest"],
        metadata={"path": found.relative_path},
        warnings=tuple(answer["warnings"]),
        web_links=_to_web_links(answer["web_links"]),
    )


def _to_web_links(fields: dict[str, Any] | None) -> WebLinks | None:
    return None if fields is None else WebLinks(**{**fields, "links": tuple(fields["links"])})


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with those that it has started, such as tesseract."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _release(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _describe_exit(returncode: int) -> str:
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"exit status {returncode}"
