"""Finds the tool that a model means: models write names of tools in other case, or with a prefix."""

from collections.abc import Sequence
from typing import Final

import regex

_PREFIX: Final = regex.compile(r"^(?:.{0,60}[./:])?(?=[^./:]+$)")
_NUMBER: Final = regex.compile(r":\d{1,4}$")


def known_name(written: str, names: Sequence[str]) -> str:
    """Return the one of `names` that was meant; what was written, without white space around it, if none was."""
    # Some servers leave marks of the template in the name: `search<|channel|>commentary`.
    stripped = written.partition("<|")[0].strip().strip("`'\"").removesuffix("()")
    if stripped in names:
        return stripped
    plain = _folded(_PREFIX.sub("", _NUMBER.sub("", stripped)))
    meant = [name for name in names if _folded(name) == plain]
    return meant[0] if len(meant) == 1 else stripped


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")
