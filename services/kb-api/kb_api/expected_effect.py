"""Decides what an event can still change of its document, by what is known of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb_contracts.outcomes import Facet, OutdatedFacet
from kb_shared.membership.outdated import FacetVersion, find_outdated


@dataclass(frozen=True, slots=True)
class ExpectedEffect:
    changes: bool
    """False if the event changes nothing: what is not outdated of it was accepted before, with the same revision."""
    outdated: Sequence[OutdatedFacet]
    """Parts of the document of which the event does not decide."""


def expected_effect(
    sent: Mapping[Facet, FacetVersion],
    *,
    projected: Mapping[Facet, FacetVersion],
    accepted: Mapping[Facet, FacetVersion],
) -> ExpectedEffect:
    """Return what an event can change.

    Args:
        sent: versions that the event gives to facets.
        projected: versions that the document has.
        accepted: greatest versions accepted over HTTP before this event, perhaps not projected yet.
    """
    known = {facet: max(_versions(facet, projected, accepted)) for facet in {**projected, **accepted}}
    outdated = find_outdated(sent, known)
    decided = {each.facet for each in outdated}
    changes = any(_changes(facet, version, known) for facet, version in sent.items() if facet not in decided)
    return ExpectedEffect(changes, outdated)


def _versions(facet: Facet, *known: Mapping[Facet, FacetVersion]) -> list[FacetVersion]:
    return [each[facet] for each in known if facet in each]


def _changes(facet: Facet, version: FacetVersion, known: Mapping[Facet, FacetVersion]) -> bool:
    if facet == "deletion":
        return facet not in known or known[facet] < version
    # A text whose digest is not known may be another one.
    return not version.digest or known.get(facet) != version
