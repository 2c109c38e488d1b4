import subprocess
import sys

# What a SIGTERM does to a command of the driver whose answer has just arrived.
CANCEL_WITH_THE_RESULT = """
import asyncio, sys
from kb_local.search_node import __main__ as node

async def cancel_with_the_result(_):
    answer = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(asyncio.wait_for(answer, 60))
    await asyncio.sleep(0)
    answer.set_result(None)
    task.cancel()
    await asyncio.wait([task])
    return 0 if task.cancelled() else 1

node._serve = cancel_with_the_result
sys.exit(node.main(["--listen", "127.0.0.1:1", "--mongod", "127.0.0.1:2"]))
"""


def test_a_cancellation_that_comes_together_with_the_result_is_not_lost_in_the_node() -> None:
    subprocess.run([sys.executable, "-c", CANCEL_WITH_THE_RESULT], check=True)
