"""Documents with equal scores come in an order that is neither that of insertion nor that of their ids."""

from tests.conformance.atlas_search.deployment import (
    Collection,
    create_ready,
    create_ready_texts,
    eventually,
    found_ids,
    mappings,
    search_ids,
    vector_field,
)

QUERY = [1.0, 0.0, 0.0, 0.0]
COUNT = 60
WORD = {"text": {"query": "word", "path": "s"}}


async def fill(things: Collection) -> None:
    await things.insert_many([{"_id": f"{number:03}", "s": "word", "embedding": QUERY} for number in range(COUNT)])


async def test_equal_vectors_come_in_an_order_of_their_own_whatever_the_limit(things: Collection) -> None:
    await fill(things)
    await create_ready(things, vector_field())
    every = await found_ids(things, QUERY)
    assert len(every) == COUNT
    assert every not in (sorted(every), sorted(every, reverse=True))
    assert await found_ids(things, QUERY, limit=10) == every[:10]


async def test_equal_texts_come_in_an_order_of_their_own(things: Collection) -> None:
    await fill(things)
    await create_ready_texts(things, mappings({"s": {"type": "string"}}))

    async def complete() -> bool:
        return len(await search_ids(things, WORD)) == COUNT

    await eventually(complete)
    every = await search_ids(things, WORD)
    assert every not in (sorted(every), sorted(every, reverse=True))
