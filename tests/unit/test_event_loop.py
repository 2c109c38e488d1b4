import asyncio

import uvloop


async def test_tests_run_in_the_event_loop_of_the_services() -> None:
    """A version of pytest-asyncio that names its fixture differently would give them Python's own."""
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
