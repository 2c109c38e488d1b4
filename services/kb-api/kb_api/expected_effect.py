"""Decides what an event can still change of its document, by what is known of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb_contracts.outcomes import Facet, OutdatedFacet
from kb_shared.membership.outdated import FacetVersion, find_outdated, without_deleted


@dataclass(frozen=True, slots=True)
class ExpectedEffect:
    changes: bool
    """False if the event certainly changes nothing: all of it is outdated, or the document has just this content."""
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
    undecided = sent.keys() - {each.facet for each in outdated}
    return ExpectedEffect(any(_changes(facet, sent[facet], projected, known) for facet in undecided), outdated)


def _versions(facet: Facet, *known: Mapping[Facet, FacetVersion]) -> list[FacetVersion]:
    return [each[facet] for each in known if facet in each]


def _changes(
    facet: Facet, version: FacetVersion, projected: Mapping[Facet, FacetVersion], known: Mapping[Facet, FacetVersion]
) -> bool:
    if facet == "deletion":
        return facet not in known or known[facet] < version
    # What was accepted and is not projected yet may still be refused by Kafka.
    return not version.digest or without_deleted(projected).get(facet) != version
