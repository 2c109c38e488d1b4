"""What one tenant writes must not decide how long the others wait: the time for a text grows as the text does.

A chunk of 16,000 line feeds, which a scanner makes of empty pages, kept a search's event loop busy for two seconds. CPU
time is compared with CPU time of the same run: where the work grows with the square of the length, 4 times the text
takes 16 times as long.
"""

import importlib
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings

from kb_contracts import strict_json
from kb_search.authoring.agent_tools import default_tool_name
from kb_search.mcp.document_chunks import DocumentChunks
from kb_search.mcp.tool_results import render_document_chunks
from kb_search.retrieval.coalescing import Piece, merge_pieces
from kb_search.retrieval.context_budget import BudgetedPassage, cut_beginning, fit_passages
from kb_search.retrieval.fusion import classify_query
from kb_search.retrieval.query import SearchQuery
from kb_search.runs.addresses import KnownAddresses, find_addresses, neutralize_addresses
from kb_search.runs.citations import remove_marks, resolve_citations
from kb_search.runs.clean_answers import AnswerStreamCleaner
from kb_search.runs.discussed_document import cut_document
from kb_search.runs.json_strings import clean_json
from kb_search.runs.mark_notation import CitableNumbers
from kb_search.runs.marks import remove_unknown_marks
from kb_search.runs.passages import RunPassages, remove_invisible_characters
from kb_shared.chat.prompt_delimiter import PromptDelimiter
from kb_shared.chunking import ChunkerType, ChunkingConfig
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.outline import Outline
from kb_shared.chunking.tables import find_tables
from kb_shared.embedding.late_text import LateText
from kb_shared.mongo.vectors import StoredChunk
from kb_shared.text.spellings import spelled_terms
from kb_shared.text.text_normalization import FOLDED, SPELLED, for_model
from kb_shared.text.tokens import count_tokens, token_starts, tokens_before
from kb_shared.text.whole_characters import WholeCharacters, whole_characters
from tests.unit.chunking.chunked import chunked
from tests.unit.linear.growth import complaint
from tests.unit.linear.texts import SHAPES, Shape, mixed
from tests.unit.search.test_tool_results import KB

ROOT: Final = Path(__file__).parents[3]
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
MAX_TOKENS: Final = 300
"""Above which a passage is cut."""
PIECE: Final = 16
"""Code points that a model streams at once."""

Function = Callable[[str], object]


def _show_chunk(text: str) -> object:
    chunk = StoredChunk(
        chunk_id="d:1:0",
        document_id="d",
        document_name="name",
        chunk_index=0,
        text=text,
        token_count=1,
        start=0,
        end=len(text),
        upload_date=NOW,
    )
    return render_document_chunks(DocumentChunks(KB, [chunk], 0, 1))


def _fit(text: str) -> object:
    passages = [BudgetedPassage(text, MAX_TOKENS + 1, 0.5, NOW)] * 2
    return fit_passages(passages, max_tokens=MAX_TOKENS, prioritize_by="recency", now=NOW)


def _stream(text: str) -> object:
    # Some of the texts repeat this address.
    addresses = KnownAddresses(of_passages={1: frozenset(["https://a"])})
    answer, characters = AnswerStreamCleaner(CitableNumbers(1), addresses), WholeCharacters()
    for start in range(0, len(text), PIECE):
        answer.feed(characters.feed(text[start : start + PIECE]))
    return answer.end()


def _parse(text: str) -> object:
    try:
        return strict_json.parse(text.encode())
    except ValueError:
        return None


OF_SEARCH: Final[dict[str, Function]] = {
    "MCP: chunks": _show_chunk,
    "cleaned": remove_invisible_characters,
    "beginning": lambda text: cut_beginning(text, MAX_TOKENS),
    "fit": _fit,
    "discussed document": lambda text: cut_document("d", "name", text, max_tokens=MAX_TOKENS),
    "merged": lambda text: merge_pieces([Piece(text, 0, len(text)), Piece(text[100:], 100, len(text))]),
    "fence": lambda text: PromptDelimiter.create().wrap({"text": text}),
    "words of a query": lambda text: SearchQuery(text).words_for_index(SPELLED),
    "shape of a query": classify_query,
    "name of a tool": lambda text: default_tool_name(text, ()),
    "citations": lambda text: resolve_citations(text, RunPassages()),
    "citations in JSON": lambda text: resolve_citations(json.dumps([text]), RunPassages(), is_json=True),
    "without unknown citations": lambda text: remove_unknown_marks(text, CitableNumbers(2)),
    "brackets of passages": lambda text: CitableNumbers.of_texts([text]),
    "without marks": remove_marks,
    "without marks in JSON": lambda text: remove_marks(json.dumps([text, {text: text}]), is_json=True),
    "addresses": lambda text: find_addresses([text]),
    "neutral": lambda text: neutralize_addresses(text, frozenset()),
    "neutral JSON": lambda text: clean_json(json.dumps([text]), partial(neutralize_addresses, known=frozenset())),
    "streamed answer": _stream,
    "whole characters": lambda text: whole_characters(text + "\ud800"),
    "JSON": _parse,
    "string in JSON": lambda text: _parse(json.dumps(text)),
}
OF_INDEXING: Final[dict[str, Function]] = {
    "late text": LateText.read,
    "tokens counted": count_tokens,
    "places of tokens": token_starts,
    "tokens before": tokens_before,
    "counted text": lambda text: CountedText(text).count(0, len(text)),
    "outline": lambda text: Outline(text).chunk_type(0, len(text)),
    "normalized for the model": lambda text: for_model(text, FOLDED),
    "other spellings": spelled_terms,
    "tables": lambda text: [list(table.rows(text)) for table in find_tables(text)],
}
CHUNKERS: Final[dict[str, Function]] = {
    str(chunker): partial(chunked, config=ChunkingConfig(chunker, 512, 50)) for chunker in ChunkerType
}

ONLY_WHOLE: Final = {
    "kb_contracts.event_forms._MEDIA_TYPE": "matched with the whole media type of an event",
    "kb_shared.chunking.tables._DELIMITER_ROW": "matched with whole lines; see `tables`",
    "kb_search.retrieval.fusion._IDENTIFIER": "matched with whole words; see `shape of a query`",
    "kb_search.runs.addresses._UNFINISHED": "searched for after the last white space; see `streamed answer`",
    "kb_search.runs.addresses._UNFINISHED_TAG": "matched where a tag begins; see `streamed answer`",
    "kb_search.runs.mark_notation._IDENTIFIER": "matched with the word before a bracket",
    "kb_search.runs.written_answers._FENCED": "matched with a whole answer",
    "kb_search.runs.written_arguments._FENCE": "matched with the arguments of a call",
    "kb_search.runs.written_arguments._TEXT": "searched for in the arguments of a call",
    "kb_shared.text.spellings._CODE": "matched with a whole word",
    "kb_search.runs.written_answers._ONLY_MARKS": "matched with a whole answer",
    "kb_search.runs.marks._UNFINISHED_FENCE": "matched where a line begins; see `streamed answer`",
}
"""Patterns that are not searched for everywhere in a text, and where they are tried as they are used."""


def _patterns() -> dict[str, re.Pattern[str]]:
    """All patterns of the services by name, so that a new one is tested without a change here.

    Those of bytes see the beginning of a file only.
    """
    packages = [*ROOT.glob("services/*/kb_*"), ROOT / "contracts" / "kb_contracts", ROOT / "shared" / "kb_shared"]
    sources = [(package.parent, path) for package in packages for path in package.rglob("*.py")]
    names = [
        ".".join(path.relative_to(parent).with_suffix("").parts)
        for parent, path in sorted(sources)
        if "re.compile(" in path.read_text()
    ]
    return {
        f"{name}.{attribute}": value
        for name in names
        for attribute, value in vars(importlib.import_module(name)).items()
        if isinstance(value, re.Pattern) and isinstance(value.pattern, str)
    }


def _searching(pattern: re.Pattern[str]) -> Function:
    return lambda text: (pattern.fullmatch(text), sum(1 for _ in pattern.finditer(text)))


PATTERNS: Final[dict[str, Function]] = {
    name: pattern.fullmatch if name in ONLY_WHOLE else _searching(pattern) for name, pattern in _patterns().items()
}
TRIED: Final = {**OF_SEARCH, **OF_INDEXING, **PATTERNS}


def test_every_pattern_has_a_name_in_its_module() -> None:
    """One that is written where it is used would not be tried here."""
    inline = re.compile(r"\bre\.(?:sub|subn|split|search|match|findall|finditer)\(")
    sources = [
        *ROOT.glob("services/*/kb_*/**/*.py"),
        *ROOT.glob("contracts/kb_contracts/**/*.py"),
        *ROOT.glob("shared/kb_shared/**/*.py"),
    ]
    assert len(PATTERNS) > 30
    assert not [path.name for path in sources if inline.search(path.read_text())]
    assert PATTERNS.keys() >= ONLY_WHOLE.keys()


@pytest.mark.parametrize("function", TRIED.values(), ids=TRIED)
def test_four_times_the_text_takes_about_four_times_as_long(function: Function) -> None:
    assert not {shape: found for shape in SHAPES if (found := complaint(function, shape.text))}


@pytest.mark.parametrize("function", OF_INDEXING.values(), ids=OF_INDEXING)
def test_no_function_on_whole_documents_is_quadratic_with_a_small_constant(function: Function) -> None:
    # Documents are a thousand times as long as a chunk, so that less harm at the length of a chunk is harm there.
    assert not {shape: found for shape in SHAPES[::4] if (found := complaint(function, shape.text, longest=64_000))}


@pytest.mark.parametrize("chunker", CHUNKERS.values(), ids=CHUNKERS)
def test_chunking_four_times_the_text_takes_about_four_times_as_long(chunker: Function) -> None:
    # That the work of chunkers is linear on text of every script is counted in `chunking/test_work_is_linear.py`.
    assert not {shape: found for shape in SHAPES[::3] if (found := complaint(chunker, shape.text))}


# Each example tries more than a hundred functions.
@settings(max_examples=settings().max_examples // 3)
@given(mixed)
def test_no_mixture_of_characters_takes_more_than_linear_time(shape: Shape) -> None:
    tried = OF_SEARCH | OF_INDEXING | PATTERNS
    assert not {name: found for name, function in tried.items() if (found := complaint(function, shape.text))}
