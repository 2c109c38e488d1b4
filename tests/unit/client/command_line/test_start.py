"""`kb` starts quickly: what commands need is imported when they run."""

import subprocess
import sys

import pytest

HEAVY = (
    "aiokafka",
    "asyncio",
    "fastapi",
    "httpx",
    "kb_contracts",
    "litellm",
    "numpy",
    "opentelemetry",
    "pydantic",
    "pymongo",
    "rich",
    "structlog",
)


# typer reads the options of subcommands with pydantic.
@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["docs", "push", "--help"], {"pydantic"}),
        (["up", "--help"], {"pydantic"}),
        (["config", "list"], {"pydantic"}),
    ],
)
def test_what_prints_without_a_server_loads_nothing_heavy(arguments: list[str], allowed: set[str]) -> None:
    program = f"""
import sys
from kb_client.cli import main
try:
    main({arguments!r})
except SystemExit:
    print("loaded:", *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage: kb" in ended.stdout or "profile" in ended.stdout
    _, *loaded = ended.stderr.splitlines()[-1].split()
    assert set(loaded) <= allowed
