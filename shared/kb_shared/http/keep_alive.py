"""Keep-alive timeout of servers."""

from typing import Final

KEEP_ALIVE_S: Final = 75
"""Seconds for which an idle connection is kept: longer than clients (httpx 5 s, aiohttp 15 s) and load balancers
(mostly 60 s) keep it. The client must close first, or a request is lost on a connection that is just being closed. The
default of uvicorn, 5 s, equals that of httpx.
"""
