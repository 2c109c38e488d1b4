import asyncio

from prometheus_client import generate_latest

from kb_shared.observability.metrics import count_event_loop_tasks


async def test_the_metric_counts_tasks_that_have_not_ended() -> None:
    ended = asyncio.Event()
    before = _exported()
    tasks = [asyncio.create_task(ended.wait()) for _ in range(3)]

    during = _exported()
    ended.set()
    await asyncio.gather(*tasks)

    assert during == before + 3
    assert _exported() == before


async def test_a_thread_without_an_event_loop_counts_no_tasks() -> None:
    assert await asyncio.to_thread(count_event_loop_tasks) == 0


def _exported() -> float:
    """Return the value as a scrape reads it."""
    lines = generate_latest().decode().splitlines()
    [value] = [line.split()[1] for line in lines if line.startswith("kb_event_loop_tasks ")]
    return float(value)
