"""The side of kb-api: starts the worker process, and sends it one request at a time."""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kb_api.preview_unavailable import PreviewUnavailable
from kb_api.text_worker.frames import LENGTH_BYTES, body_length, from_body, to_frame
from kb_shared.concurrency.keyed_locks import KeyedLocks

IDLE_S: Final = 60.0
"""Time without requests after which the process ends, so that its memory is free."""
START_WITHIN_S: Final = 60.0
"""Brake of its start: to load its libraries takes 2 s of CPU, which a busy machine may not have."""
ANSWER_WITHIN_S: Final = 40.0
"""Brake of one request, whose largest text takes 0.6 s of CPU. Then the process is killed, whatever it does."""
_INHERITED: Final = ("LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "SYSTEMROOT", "TMPDIR")
"""Variables that the process gets: none of those that hold a secret."""


@dataclass(frozen=True, slots=True)
class ChunkingRequest:
    """A text with the settings of a KB that decide its chunks; `pages` as (page, start, end)."""

    text: str
    chunker_type: str
    chunk_size: int
    chunk_overlap: int
    text_normalization: int
    max_chunks: int
    pages: Sequence[tuple[int, int, int]] = ()
    embedding_text: str | None = None


@dataclass(frozen=True, slots=True)
class PreviewedChunk:
    """A chunk as the indexer would make it, without its text."""

    start: int
    end: int
    token_count: int
    context: str
    heading_path: Sequence[str]
    page_start: int | None
    page_end: int | None
    chunk_type: str
    chunk_hash: str
    embedded_bytes: int
    """Size of what is embedded, in UTF-8."""


@dataclass(frozen=True, slots=True)
class ChunkedText:
    chunks: Sequence[PreviewedChunk]
    embeddings_at_most: int | None
    """Number of embeddings of the text if its chunker has to embed it to find the chunks; `chunks` are then those of
    the `sentence` chunker, of which there are at most as many. None: `chunks` are exact."""


class TextWorker:
    """Chunks texts and detects languages in a process of its own. One for a process of kb-api.

    Raises:
        PreviewUnavailable: of each method, if the process ends or takes too long.
    """

    def __init__(self, *, idle_s: float = IDLE_S, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._idle_s = idle_s
        self._answer_within_s = answer_within_s
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()
        self._organizations = KeyedLocks()

    async def chunk(self, organization_id: str, request: ChunkingRequest) -> ChunkedText:
        message = {name: getattr(request, name) for name in ChunkingRequest.__slots__}
        response = await self._ask(organization_id, message)
        chunks = [PreviewedChunk(**chunk) for chunk in response["chunks"]]
        return ChunkedText(chunks, response["embeddings_at_most"])

    async def detect_languages(self, organization_id: str, texts: Sequence[str]) -> list[str | None]:
        """Return the ISO 639-1 code of the language of each text; None if it is not known."""
        response = await self._ask(organization_id, {"languages_of": list(texts)})
        languages: list[str | None] = response["languages"]
        return languages

    async def close(self) -> None:
        """End the process, in the middle of its work if need be."""
        if self._idle is not None:
            self._idle.cancel()
        await self._kill()

    async def _ask(self, organization_id: str, message: dict[str, Any]) -> dict[str, Any]:
        # One request of an organization waits at a time, so that organizations take turns.
        async with self._organizations.lock(organization_id), self._turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                async with asyncio.timeout(START_WITHIN_S):
                    process = await self._started()
                async with asyncio.timeout(self._answer_within_s):
                    return await _exchange(process, message)
            except (OSError, EOFError, TimeoutError) as error:
                await self._kill()
                raise PreviewUnavailable("The text could not be processed in time") from error
            except BaseException:
                # An answer that is not read would be taken for that of the next request.
                await self._kill()
                raise
            finally:
                self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle_process)

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kb_api.text_worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            )
            await _read(self._process)
        return self._process

    def _end_idle_process(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _exchange(process: asyncio.subprocess.Process, message: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write(to_frame(message))
    await process.stdin.drain()
    return await _read(process)


async def _read(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    head = await process.stdout.readexactly(LENGTH_BYTES)
    return from_body(await process.stdout.readexactly(body_length(head)))
