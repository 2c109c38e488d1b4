"""Says why a document is not among results, with the words of the page instead of the names of the API."""

from kb_console.field_words import field_words
from kb_contracts.api.search_explanations import SearchExplanationView


def explain_in_words(explained: SearchExplanationView) -> str:
    """Return the reason and what to do. Where the page has no words of its own, those of the API are kept."""
    fused = explained.fused
    match explained.reason:
        case "beyond_page":
            rank = "" if fused is None or fused.rank is None else f" Its best passage has rank {fused.rank}."
            return (
                f"Other passages match better, or the limit of tokens leaves no room for it.{rank} Ask for more"
                " results, or narrow the search with a filter."
            )
        case "below_min_score":
            return (
                "Its best passage is below the minimum score, and contains no word of the query. Lower the minimum"
                " score, under “Filters and limits”."
            )
        case "filtered_out":
            names = ", ".join(field_words(name.removeprefix("metadata_filter.")) for name in explained.filtered_out_by)
            return f"No part of it meets these filters: {names}. Change or remove them, under “Filters and limits”."
        case "not_found" if explained.vector is None:
            return "It contains none of the words of the query. Search by meaning and words instead."
        case _:
            return explained.detail
