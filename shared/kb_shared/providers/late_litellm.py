"""Imports litellm at the first call that needs it: that takes seconds, and servers with OpenAI's API are asked without.

What litellm knows of models is read from its file.
"""

import asyncio
import importlib
import json
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from kb_shared.text.tokens import litellm_folder

_MODULE: Final = "kb_shared.providers.quiet_litellm"
_DESCRIPTIONS: Final = "model_prices_and_context_window_backup.json"


async def load_litellm() -> ModuleType:
    """Return `quiet_litellm`, which a thread imports at first; other requests go on meanwhile."""
    if (module := loaded_litellm()) is not None:
        return module
    return await asyncio.to_thread(importlib.import_module, _MODULE)


def loaded_litellm() -> ModuleType | None:
    """Return `quiet_litellm`; None where no call has needed it yet."""
    module = sys.modules.get(_MODULE)
    # Its last name: while a thread imports it, others are missing.
    return module if module is not None and hasattr(module, "_parsed") else None


def errors_of_litellm() -> tuple[type[Exception], ...]:
    """Return the exceptions of litellm; there are none before it was imported."""
    module = loaded_litellm()
    errors: tuple[type[Exception], ...] = () if module is None else module.LITELLM_ERRORS
    return errors


def describe_models(mode: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what litellm knows of its models, by name.

    Args:
        mode: `chat` or `embedding`.
    """
    known = json.loads((litellm_folder() / _DESCRIPTIONS).read_bytes())
    return {name: described for name, described in known.items() if described.get("mode") == mode}
