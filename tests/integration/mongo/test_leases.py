from datetime import timedelta

from kb_shared.mongo import leases
from kb_shared.mongo.database import Database

NAMES = {"a", "b", "c"}
LONG, OVER = timedelta(minutes=1), timedelta(seconds=-1)


async def test_of_several_leases_each_is_taken_that_no_other_owner_has(database: Database) -> None:
    assert await leases.take_all(database, {"a"}, owner="one", length=LONG) == {"a"}
    assert await leases.take_all(database, NAMES, owner="two", length=LONG) == {"b", "c"}
    assert await leases.take_all(database, NAMES, owner="one", length=LONG) == {"a"}
    await leases.release(database, "b", owner="two")
    assert await leases.take_all(database, NAMES, owner="one", length=LONG) == {"a", "b"}


async def test_of_several_leases_those_that_ran_out_are_taken_and_own_ones_are_renewed(database: Database) -> None:
    await leases.take_all(database, {"a", "b"}, owner="one", length=OVER)
    assert await leases.take_all(database, {"a"}, owner="one", length=LONG) == {"a"}
    assert await leases.take_all(database, NAMES, owner="$two", length=LONG) == {"b", "c"}
    assert not await leases.acquire(database, "a", owner="$two", length=LONG)
