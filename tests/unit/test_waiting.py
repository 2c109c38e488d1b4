import asyncio
import itertools

import pytest

from tests.unit.embedding import virtual_time
from tests.waiting import until


async def test_a_timeout_names_its_condition() -> None:
    async def the_cows_come_home() -> bool:
        return False

    with pytest.raises(TimeoutError, match="the_cows_come_home in line"):
        await until(the_cows_come_home, within_s=0.01)
    with pytest.raises(TimeoutError, match=r"not within 0\.01 s: a sign"):
        await until(lambda: False, what="a sign", within_s=0.01)


async def test_a_timeout_of_what_is_asked_is_not_taken_for_the_end_of_the_wait() -> None:
    async def asks_another_service() -> bool:
        raise TimeoutError("of another service")

    with pytest.raises(TimeoutError, match="of another service"):
        await until(asks_another_service)


async def test_a_condition_is_asked_until_it_holds() -> None:
    answers = iter([False, False, True])
    await until(lambda: next(answers), every_s=0)
    assert list(answers) == []


def test_a_wait_lasts_as_long_as_there_is_progress() -> None:
    documents = iter(range(10))
    indexed = 0

    async def all_are_indexed() -> bool:
        nonlocal indexed
        await asyncio.sleep(30)
        indexed = next(documents)
        return indexed == 9

    virtual_time.run(lambda: until(all_are_indexed, within_s=60, every_s=0, progress=lambda: indexed))


async def test_a_wait_without_progress_ends_and_says_how_far_it_came() -> None:
    answers = itertools.cycle(["starting", "crashed"])
    with pytest.raises(TimeoutError, match=r"not within 0\.1 s: a start, and no progress since '(starting|crashed)'"):
        await until(lambda: False, what="a start", within_s=0.1, every_s=0.01, progress=lambda: next(answers))
