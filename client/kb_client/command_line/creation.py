"""Creates tags, and chooses the text analyzer of a new knowledge base."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kb_client.errors import KbClientError

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.knowledge_bases import TextAnalyzer

_NO_LANGUAGE: Final = "zxx"
"""ISO 639 code of texts without language, such as numbers."""

NAMES_OF_LANGUAGES: Final = {
    "ca": "Catalan",
    "da": "Danish",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "eu": "Basque",
    "fi": "Finnish",
    "fr": "French",
    "hu": "Hungarian",
    "hy": "Armenian",
    "it": "Italian",
    "nb": "Norwegian",
    "nl": "Dutch",
    "no": "Norwegian",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
}


@dataclass(frozen=True, slots=True)
class AnalyzerSuggestion:
    analyzer: "TextAnalyzer"
    sentence: str
    """Says to people what was chosen, and why."""


def suggest_analyzer(client: "Client", **about: Any) -> AnalyzerSuggestion:
    """Return the analyzer that fits documents with some tags (`tag_ids`) or a `text`."""
    preview = client.knowledge_bases.preview(**about, limit=1)
    analyzer, language = preview.suggested_text_analyzer, preview.language.language
    if language in (None, _NO_LANGUAGE):
        why = "no language is clearly the most frequent"
    else:
        why = f"the texts are {NAMES_OF_LANGUAGES.get(language or '', f'in the language {language}')}"
    return AnalyzerSuggestion(analyzer, f"text analyzer {analyzer}: {why}")


def create_tags(client: "Client", tag_ids: Sequence[str], *, names: Mapping[str, str] | None = None) -> list[str]:
    """Create the tags that do not exist, and return them; the others keep their names."""
    missing = list(dict.fromkeys(tag_ids))
    if not missing:
        return []
    known = {each.tag_id for each in client.tags.list.iterate()}
    created = [each for each in missing if each not in known]
    for tag_id in created:
        client.tags.put(tag_id, name=(names or {}).get(tag_id, tag_id))
    return created


@contextmanager
def tags_created(client: "Client", tag_ids: Sequence[str], *, names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Create tags for what happens in the block; if that is refused, delete them again."""
    created = create_tags(client, tag_ids, names=names)
    try:
        yield
    except KbClientError:
        for tag_id in created:
            # It stays if something uses it after all, such as what was created although its answer was lost.
            with suppress(KbClientError):
                client.tags.delete(tag_id)
        raise
