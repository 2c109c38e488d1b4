"""Decides which parts of an event do not stay, because a document has something else in their place. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from kb_contracts.outcomes import Facet, OutdatedFacet
from kb_shared.mongo.documents import Document


@dataclass(frozen=True, slots=True, order=True)
class FacetVersion:
    """Version of a facet: the greatest one stays."""

    revision: int
    digest: str = ""
    """Digest of the content; empty if it is not known, and of a deletion."""


def versions_in(document: Document) -> dict[Facet, FacetVersion]:
    """Return the versions of what a document has, and of its deletion."""
    found: dict[Facet, FacetVersion] = {}
    if document.text is not None:
        found["text"] = FacetVersion(document.text.revision, document.text.digest)
    if document.tags is not None:
        found["tags"] = FacetVersion(document.tags.revision, document.tags.digest)
    if document.metadata is not None:
        found["metadata"] = FacetVersion(document.metadata.revision, document.metadata.digest)
    if document.deleted_revision is not None:
        found["deletion"] = FacetVersion(document.deleted_revision)
    return found


def _without_deleted(known: Mapping[Facet, FacetVersion]) -> dict[Facet, FacetVersion]:
    """Return the versions of what a document has, without those that its deletion made absent."""
    deletion = known.get("deletion")
    return {
        facet: version
        for facet, version in known.items()
        if facet != "deletion" and (deletion is None or version.revision > deletion.revision)
    }


def find_outdated(sent: Mapping[Facet, FacetVersion], known: Mapping[Facet, FacetVersion]) -> list[OutdatedFacet]:
    """Return the facets of an event in whose place something else stays.

    Args:
        sent: versions that the event gives to facets.
        known: greatest versions that are known; those of the event may be among them.
    """
    contents = _without_deleted(known)
    found = (_find_what_stays(facet, version, contents=contents, known=known) for facet, version in sent.items())
    return [each for each in found if each is not None]


def _find_what_stays(
    facet: Facet, version: FacetVersion, *, contents: Mapping[Facet, FacetVersion], known: Mapping[Facet, FacetVersion]
) -> OutdatedFacet | None:
    if facet == "deletion":
        revisions = [each.revision for each in contents.values()]
        is_outdated = bool(revisions) and min(revisions) > version.revision
        return OutdatedFacet(facet=facet, by="newer_revision", revision=max(revisions)) if is_outdated else None
    stored, deletion = contents.get(facet), known.get("deletion")
    if stored is None:
        if deletion is None or deletion.revision < version.revision:
            return None
        return OutdatedFacet(facet=facet, by="deletion", revision=deletion.revision)
    if stored.revision > version.revision:
        return OutdatedFacet(facet=facet, by="newer_revision", revision=stored.revision)
    # Without a digest, nothing is claimed about content with the same revision.
    if version.digest and stored > version:
        return OutdatedFacet(facet=facet, by="other_content", revision=stored.revision)
    return None
