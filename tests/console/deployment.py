"""The stack that the browser is driven against, run with the project's own Python.

`python -m tests.console.deployment` starts the services with a small model, prints their address, the admin key and the
address of the models as one line of JSON, and ends with its standard input.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from kb_contracts.topics import DOCUMENT_EVENTS
from kb_local.stack import Stack
from kb_shared.kafka.producer import Producer

SERVICES = ("kb_api", "kb_indexer", "kb_search", "kb_knowledge", "kb_knowledge.runner", "kb_console")
SETTINGS = {
    "KB_EMBEDDING_MODEL": "hash-64",
    # A source reads a web site of the tests.
    "KB_ALLOW_PRIVATE_ADDRESSES": "true",
}


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kb-console-") as folder:
        async with Stack(Path(folder), services=SERVICES, env=SETTINGS) as stack:
            await _send_what_cannot_be_read(stack)
            about = {"base_url": stack.base_url, "api_key": stack.api_key, "models_url": stack.models_api_base}
            print(json.dumps(about), flush=True)  # noqa: T201  # its answer
            await asyncio.to_thread(sys.stdin.read)


async def _send_what_cannot_be_read(stack: Stack) -> None:
    """Send an event that becomes a dead letter, which no call of the API can do."""
    async with Producer(stack.kafka_connection, idempotence=False) as producer:
        await producer.send(stack.topic_prefix + DOCUMENT_EVENTS.name, b"local/unreadable", value=b"not JSON")


if __name__ == "__main__":
    asyncio.run(main())
