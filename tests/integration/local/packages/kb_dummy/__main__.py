"""A service with nothing to do: what the tests of launchers and supervisor start."""

import asyncio
import os
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route


async def ready(_request: Request) -> Response:
    return JSONResponse({})


async def metrics(_request: Request) -> Response:
    return PlainTextResponse("dummy 1\n")


async def describe(_request: Request) -> Response:
    environment = {name: value for name, value in os.environ.items() if name.startswith("KB_")}
    return JSONResponse({"pid": os.getpid(), "environment": environment})


async def topics() -> set[str]:
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=os.environ["KB_KAFKA"])
    await admin.start()
    try:
        return set(await admin.list_topics())
    finally:
        await admin.close()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    if "KB_DUMMY_EXIT" in os.environ:
        raise SystemExit(int(os.environ["KB_DUMMY_EXIT"]))
    if "KB_DUMMY_COUNTS_TOPICS" in os.environ:
        say(f"topics at start: {len(asyncio.run(topics()))}")
    say("dummy started")
    uvicorn.run(
        Starlette(routes=[Route("/readyz", ready), Route("/metrics", metrics), Route("/{path:path}", describe)]),
        host=os.environ["KB_HTTP_HOST"],
        port=int(os.environ["KB_HTTP_PORT"]),
        log_level="warning",
    )
