"""How long servers keep an idle connection."""

from typing import Final

KEEP_ALIVE_S: Final = 75
"""Longer than clients (httpx 5 s, aiohttp 15 s) and load balancers (mostly 60 s) do. Who closes first must be the one
who sends, or a request is lost on a connection that is just being closed; uvicorn's own 5 s are exactly httpx's.
"""
