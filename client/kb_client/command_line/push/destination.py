"""Destination of pushed documents: tags, and the knowledge base that takes them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb_client.command_line.counts import count_documents
from kb_client.command_line.creation import suggest_analyzer, tags_created
from kb_client.command_line.knowledge_base_names import find_by_name, find_knowledge_base
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.own_tag import digest_name, tag_named
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.knowledge_bases import KnowledgeBaseView


@dataclass(frozen=True, slots=True)
class Destination:
    tag_ids: tuple[str, ...]
    """Tags that every document gets."""
    kb_id: str | None = None
    """Knowledge base to push to; None if it does not exist yet, or if only tags are named."""
    name: str | None = None
    """Name of the knowledge base; None if only tags are named."""
    document_count: int = 0
    """Number of documents that it has already."""

    @property
    def is_new(self) -> bool:
        return self.name is not None and self.kb_id is None

    def describe(self) -> str:
        """Say where documents go."""
        if self.name is None:
            return f"to every knowledge base with a tag of {', '.join(self.tag_ids)}"
        if self.is_new:
            return f"to the knowledge base {self.name!r}, which would be created"
        return f"to the existing knowledge base {self.name!r} ({count_documents(self.document_count)})"


def find_destination(
    client: "Client", *, kb: str | None, tag_ids: Sequence[str], sources: Sequence[str]
) -> Destination:
    """Return where documents go: the named knowledge base, the named tags, or one called like the pushed folder.

    Raises:
        UnusableRequest: several folders are pushed and no knowledge base is named, or the named one has no tag.
    """
    if kb is None and tag_ids:
        return Destination(tuple(tag_ids))
    if kb is None:
        if len(sources) != 1:
            raise UnusableRequest(f"{len(sources)} folders are pushed: name a knowledge base for them with --kb")
        kb = sources[0]
    found = _find_existing(client, kb)
    if found is None:
        return Destination((*tag_ids, _choose_tag(client, kb)), name=kb)
    return Destination((*tag_ids, _tag_of(found)), found.kb_id, found.name, found.document_count)


def create_knowledge_base(
    client: "Client", destination: Destination, *, read_sample: Callable[[], str]
) -> tuple[Destination, list[str]]:
    """Create the knowledge base of a destination, and return sentences on what was chosen.

    Args:
        read_sample: returns text of the files, from which the text analyzer is chosen.
    """
    name, own_tag = destination.name or "", destination.tag_ids[-1]
    sample = read_sample()
    suggestion = suggest_analyzer(client, text=sample) if sample else None
    with tags_created(client, destination.tag_ids, names={own_tag: name}):
        created = client.knowledge_bases.create(
            name=name,
            tag_ids=[own_tag],
            text_analyzer=UNSET if suggestion is None else suggestion.analyzer,
        )
    sentences = [f"created knowledge base {name!r} (tag {own_tag})"]
    if suggestion is not None:
        sentences.append(suggestion.sentence)
    return replace(destination, kb_id=created.kb_id), sentences


def _choose_tag(client: "Client", name: str) -> str:
    """Return a tag for a new knowledge base: the one of its name, unless another knowledge base has that one."""
    own = tag_named(name)
    used = any(each.tag_id == own and each.knowledge_base_count for each in client.tags.list.iterate(name_search=own))
    return f"{own}-{digest_name(name)}" if used else own


def _find_existing(client: "Client", kb: str) -> "KnowledgeBaseView | None":
    if re.fullmatch(r"[0-9a-f]{24}", kb) or len(find_by_name(client, kb)) > 0:
        return find_knowledge_base(client, kb)
    return None


def _tag_of(found: "KnowledgeBaseView") -> str:
    """Return the tag that brings a document into a knowledge base: the one of its name, or its first."""
    if not found.tag_ids:
        raise UnusableRequest(
            f"knowledge base {found.name!r} has no tag, so no document gets into it: kb kb edit {found.kb_id} --add-tag"
            f" {tag_named(found.name)}"
        )
    own = tag_named(found.name)
    return own if own in found.tag_ids else found.tag_ids[0]
