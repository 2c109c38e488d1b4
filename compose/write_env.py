"""Writes .env from .env.example, with new random secrets. It never overwrites a file. `make env` runs it."""

import base64
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RANDOM: Mapping[str, Callable[[], str]] = {
    "<random hex>": lambda: secrets.token_hex(32),
    "<random key>": lambda: f"k1:{base64.b64encode(secrets.token_bytes(32)).decode()}",
    "<random api key>": lambda: f"kb_{secrets.token_hex(6)}_{secrets.token_hex(24)}",
}


def fill(example: str) -> str:
    """Return the example with a secret of its own in each place that names one."""
    return re.sub(r"(?m)(?<==)<random [a-z ]+>$", lambda found: RANDOM[found[0]](), example)


def write(source: Path, target: Path) -> None:
    """Write a file that only its owner can read.

    Raises:
        FileExistsError: the file exists; it may have the only copy of secrets that are in use.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(fill(source.read_text()))


if __name__ == "__main__":
    try:
        write(ROOT / ".env.example", ROOT / ".env")
    except FileExistsError:
        sys.exit("error: .env exists, and may have the only copy of secrets that are in use: it was not changed")
    sys.stdout.write(".env is written, with new secrets. Keep a copy of it somewhere safe.\n")
