"""Counts tokens of `cl100k_base`, offline, with the vocabulary file that litellm contains."""

import base64
import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tiktoken
from numpy.typing import NDArray

_VOCABULARY_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_VOCABULARY_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s"
)


def count_tokens(text: str) -> int:
    """Return the number of tokens of `text`; special tokens such as `<|endoftext|>` count as plain text."""
    return len(_VOCABULARY.encoding.encode_ordinary(text))


@dataclass(frozen=True, slots=True)
class TokenStarts:
    """Offsets in a text at which a token starts a code point, in order, with the end of the text as the last one.

    A token may end inside a code point. A cut there would corrupt the text, so these offsets are not included.

    Attributes:
        offsets: offsets in code points.
        tokens_before: number of tokens before each of them.
    """

    offsets: list[int]
    tokens_before: list[int]


def token_starts(text: str) -> TokenStarts:
    """Return the offsets at which `text` can be cut between two tokens.

    tiktoken's own `decode_with_offsets` gives a token that continues a code point the offset of that code point, which
    does not tell it from one that starts there; the bytes do.
    """
    vocabulary = _VOCABULARY
    tokens = np.array(vocabulary.encoding.encode_ordinary(text), dtype=np.intp)
    byte_offsets = np.append(0, np.cumsum(vocabulary.byte_lengths[tokens]))
    utf8 = np.frombuffer(text.encode(), dtype=np.uint8)
    starts_code_point = np.append((utf8 & 0xC0) != 0x80, True)
    code_point_offsets = np.cumsum(starts_code_point) - 1
    clean = starts_code_point[byte_offsets]
    return TokenStarts(
        offsets=code_point_offsets[byte_offsets[clean]].tolist(),
        tokens_before=np.flatnonzero(clean).tolist(),
    )


def tokens_before(text: str) -> NDArray[np.uint32]:
    """Return for each offset in `text`, including its end, the number of tokens that begin before it."""
    vocabulary = _VOCABULARY
    tokens = np.array(vocabulary.encoding.encode_ordinary(text), dtype=np.intp)
    utf8 = np.frombuffer(text.encode(), dtype=np.uint8)
    begins = np.zeros(len(utf8) + 1, dtype=np.uint32)
    begins[np.cumsum(vocabulary.byte_lengths[tokens[:-1]])] = 1
    begins[0] = len(tokens) > 0
    before: NDArray[np.uint32] = np.cumsum(begins, dtype=np.uint32) - begins
    if len(utf8) == len(text):
        return before
    starts_code_point = np.append((utf8 & 0xC0) != 0x80, True)
    of_code_points: NDArray[np.uint32] = before[starts_code_point]
    return of_code_points


@dataclass(frozen=True, slots=True)
class _TokenVocabulary:
    encoding: tiktoken.Encoding
    byte_lengths: NDArray[np.intp]
    """Length in bytes of each token, by its number."""


def _load_vocabulary() -> _TokenVocabulary:
    """Build the encoding from the bundled file.

    Not `tiktoken.get_encoding`: that downloads when the file is missing and deletes it when it is damaged.
    """
    content = _vocabulary_path().read_bytes()
    if hashlib.sha256(content).hexdigest() != _VOCABULARY_SHA256:
        raise RuntimeError("the cl100k_base vocabulary bundled with litellm is damaged; install litellm again")
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, content.splitlines())}
    byte_lengths = np.zeros(max(ranks.values()) + 1, dtype=np.intp)
    for token, rank in ranks.items():
        byte_lengths[rank] = len(token)
    encoding = tiktoken.Encoding("cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return _TokenVocabulary(encoding, byte_lengths)


def _vocabulary_path() -> Path:
    return litellm_folder() / "litellm_core_utils" / "tokenizers" / _VOCABULARY_FILE


def litellm_folder() -> Path:
    """Return the folder of the installed litellm without importing it, which takes seconds."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("litellm, which carries the cl100k_base vocabulary, is not installed")
    return Path(spec.submodule_search_locations[0])


# At start, so that the first document does not wait for it.
_VOCABULARY = _load_vocabulary()
