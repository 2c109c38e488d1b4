"""What a search index refuses becomes an answer that tells what to do; no hit is lost where scores are equal."""

from collections.abc import Mapping

import pytest
from pymongo.errors import OperationFailure

from kb_search.retrieval.legs import complete_ties
from kb_search.retrieval.search_index import map_index_errors
from kb_shared.errors import RequestError

FAILED = "PlanExecutor error during aggregation :: caused by :: "


@pytest.mark.parametrize(
    ("text", "status", "slug"),
    [
        ("cannot query search index 6b0a (index n collection c) while in state NOT_STARTED", 503, "index-not-ready"),
        ("cursorId: 1487152225715402282", 503, "index-not-ready"),
        ("Path 'metadata_snapshot.year' needs to be indexed as token", 503, "index-not-ready"),
        ("Path 'metadata_snapshot.year' needs to be indexed as filter", 503, "index-not-ready"),
        ("maxClauseCount is set to 1024", 422, "query-refused"),
        ("Query contains too many nested clauses; maxClauseCount is set to 1024", 422, "query-refused"),
    ],
)
def test_an_error_of_an_index_tells_what_to_do(text: str, status: int, slug: str) -> None:
    with pytest.raises(RequestError) as raised, map_index_errors():
        raise OperationFailure(FAILED + text, 8)
    assert (raised.value.status, raised.value.slug) == (status, slug)
    assert (raised.value.retry_after_s is not None) == (status == 503)


@pytest.mark.parametrize(("code", "text"), [(8, "something else"), (2, "while in state FAILED")])
def test_an_error_that_is_not_known_stays_what_it_is(code: int, text: str) -> None:
    with pytest.raises(OperationFailure), map_index_errors():
        raise OperationFailure(FAILED + text, code)


class Index:
    """An index whose order of equals changes with what it is asked for."""

    def __init__(self, *groups: tuple[float, int]) -> None:
        self.rows = [(f"{score}:{number}", score) for score, count in groups for number in range(count)]
        self.asked: list[int] = []

    async def ask(self, limit: int) -> Mapping[str, float]:
        self.asked.append(limit)
        turned = sorted(self.rows, key=lambda row: (-row[1], hash((row[0], limit))))
        return dict(turned[:limit])


async def test_equals_of_the_last_chunk_are_all_returned() -> None:
    index = Index((0.9, 40), (0.5, 300), (0.1, 300))
    found = await complete_ties(index.ask, 100)
    assert sorted(found.scores) == sorted(name for name, score in index.rows if score >= 0.5)
    assert not found.is_short
    assert index.asked == [101, 401]


async def test_an_index_without_equals_at_the_limit_is_asked_once() -> None:
    index = Index((0.9, 100), (0.5, 300))
    found = await complete_ties(index.ask, 100)
    assert (len(found.scores), found.is_short, index.asked) == (100, False, [101])


async def test_an_index_that_has_fewer_than_it_is_asked_for_has_no_others() -> None:
    index = Index((0.9, 100))
    found = await complete_ties(index.ask, 100)
    assert (len(found.scores), found.is_short, index.asked) == (100, True, [101])


async def test_no_index_is_asked_for_more_than_it_answers() -> None:
    index = Index((0.9, 20_000))
    found = await complete_ties(index.ask, 100)
    assert (len(found.scores), found.is_short) == (10_000, False)
    assert index.asked == [101, 401, 1_601, 6_401, 10_000]
