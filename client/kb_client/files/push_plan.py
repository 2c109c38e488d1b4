"""Decides what a push has to send, and what it deletes: values in, a value out."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kb_client.files.document_ids import id_prefix
from kb_client.files.document_parts import count_further_parts, digest_of_file, file_id, group_by_file


@dataclass(frozen=True, slots=True)
class PushedDocument:
    """A document as the server has it."""

    document_id: str
    source_digest: str | None
    """Digest that came with its text; None if it was not pushed from a file."""
    tag_ids: frozenset[str] = frozenset()
    document_name: str | None = None
    has_failed: bool = False
    """True if it could not be indexed in one of its knowledge bases."""
    is_being_indexed: bool = False
    """True if one of its knowledge bases is still working on it."""

    @property
    def shown_name(self) -> str:
        """Name for people, with the id that commands take."""
        return f"{self.document_name} ({self.document_id})" if self.document_name else self.document_id


@dataclass(frozen=True, slots=True)
class PushPlan:
    sends: Mapping[str, frozenset[str]]
    """Documents to send, each with all tags it has from then on: tags that others gave it are kept."""
    retags: Mapping[str, frozenset[str]]
    """Documents whose text is the same and that lack tags, each with all tags it has from then on."""
    deletes: frozenset[str]
    unchanged: frozenset[str]
    emptied_sources: frozenset[str] = field(default_factory=frozenset)
    """Folders that have documents and no file any more, such as a disk that is not mounted: ask before deleting."""


def plan_push(
    stored: Iterable[PushedDocument],
    found: Mapping[str, str],
    *,
    tag_ids: Collection[str] = (),
    prune_sources: Collection[str] = (),
    gone: Collection[str] = (),
    kept: Collection[str] = (),
) -> PushPlan:
    """Compare the files with the documents of the server.

    Args:
        stored: documents of the server that are alive; at least those of `found`, with their parts, and, to delete, of
            `prune_sources`.
        found: digest of each file by document id.
        tag_ids: tags that every document gets.
        prune_sources: folders that were searched completely; their documents without a file are deleted, if they were
            pushed from a file and have one of `tag_ids`: others come from elsewhere.
        gone: documents whose files were seen before, and are deleted under the same conditions.
        kept: documents whose files are there and could not be read; they are not deleted.
    """
    on_server = {document.document_id: document for document in stored}
    parts = group_by_file(on_server)
    wanted = frozenset(tag_ids)
    known = found.keys() & on_server.keys()
    same = {each for each in known if _is_as_found(on_server[each], found[each], parts.get(each, ()))}
    same_documents = same.union(*(parts.get(each, ()) for each in same))
    retags = {each for each in same_documents if not wanted <= on_server[each].tag_ids}

    def all_tags(document_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """Add the wanted tags to those on the server, in the order of the ids."""
        return {
            each: wanted | (on_server[each].tag_ids if each in on_server else set()) for each in sorted(document_ids)
        }

    there = found.keys() | set(kept)
    own = {
        each
        for each, document in on_server.items()
        if document.source_digest is not None and not wanted.isdisjoint(document.tag_ids)
    }
    without_file = {each for each in own if file_id(each) not in there}
    prefixes = {source: id_prefix(source) for source in prune_sources}
    return PushPlan(
        sends=all_tags(found.keys() - same),
        retags=all_tags(retags),
        deletes=frozenset(
            each for each in without_file if file_id(each) in gone or each.startswith(tuple(prefixes.values()))
        ),
        unchanged=frozenset(same - {file_id(each) for each in retags}),
        emptied_sources=frozenset(
            source for source, prefix in prefixes.items() if _any_begins(own, prefix) and not _any_begins(there, prefix)
        ),
    )


def _is_as_found(document: PushedDocument, digest: str, parts: Collection[str]) -> bool:
    """Return whether the server has the file, with all its parts."""
    stored = document.source_digest
    return digest_of_file(stored) == digest and count_further_parts(stored) == len(parts)


def _any_begins(document_ids: Iterable[str], prefix: str) -> bool:
    return any(each.startswith(prefix) for each in document_ids)
