"""Cleans answers before they are shown: no unknown citations, no links, images or HTML that loads anything. Pure."""

from kb_search.runs.addresses import AddressStreamFilter, KnownAddresses, LinkedAddresses, neutralize_addresses
from kb_search.runs.mark_notation import CitableNumbers
from kb_search.runs.marks import MarkStreamFilter, remove_unknown_marks


def clean_text(text: str, *, citable: CitableNumbers, addresses: KnownAddresses) -> str:
    """Return a text of an answer as it may be shown.

    Args:
        text: Text as the model wrote it.
        citable: Numbers of the passages of the run.
        addresses: Addresses that the run was given or has found.
    """
    links = LinkedAddresses(addresses)
    # Addresses last: the removal of a citation can form an address from the text around it.
    return neutralize_addresses(remove_unknown_marks(text, citable, links.cite), links)


class AnswerStreamCleaner:
    """Cleans an answer that is streamed in pieces, with the same result as `clean_text`."""

    def __init__(self, citable: CitableNumbers, addresses: KnownAddresses) -> None:
        links = LinkedAddresses(addresses)
        self._marks = MarkStreamFilter(citable, links.cite)
        self._addresses = AddressStreamFilter(links)

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        return self._addresses.feed(self._marks.feed(piece))

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        return self._addresses.feed(self._marks.end()) + self._addresses.end()
