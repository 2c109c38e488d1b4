"""Services that a stack runs, as `KB_LOCAL_SERVICES` names them."""

import importlib.util
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from kb_local.errors import UnknownService

ALL_SERVICES = (
    "kb_api",
    "kb_indexer",
    "kb_search",
    "kb_reconciler",
    "kb_knowledge",
    "kb_knowledge.runner",
    "kb_console",
)
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?(:[0-9]+)?")


def wanted_services(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the names in `KB_LOCAL_SERVICES`, which are separated by commas; all services where it is not set.

    Raises:
        UnknownService: one of them is no package that can be launched, or is named twice.
    """
    setting = environment.get("KB_LOCAL_SERVICES")
    if not setting:
        return ALL_SERVICES
    names = [name.strip() for name in setting.split(",")]
    for name, times in Counter(names).items():
        if not _NAME.fullmatch(name) or not _can_be_launched(name.partition(":")[0]):
            raise _refusal(f"{name!r} is not a service")
        if times > 1:
            raise _refusal(f"{name!r} is named twice")
    return names


def _can_be_launched(package: str) -> bool:
    try:
        return importlib.util.find_spec(f"{package}.__main__") is not None
    except ModuleNotFoundError:
        return False


def _refusal(problem: str) -> UnknownService:
    return UnknownService(
        problem, remedy=f"choose from {','.join(ALL_SERVICES)}; `kb_indexer:2` is a second process of kb_indexer"
    )
