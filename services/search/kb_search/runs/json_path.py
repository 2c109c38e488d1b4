"""JSON paths such as `$.passages[0].text`: names and positions, no expressions. Pure."""

import json
import re
from typing import Any, Final

_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d{1,4})\]")


def select_path(value: Any, path: str) -> str:
    """Return what a path selects: a string as it is, anything else as JSON, nothing as an empty string."""
    for name, position in _STEP.findall(path):
        if name and isinstance(value, dict) and name in value:
            value = value[name]
        elif position and isinstance(value, list) and int(position) < len(value):
            value = value[int(position)]
        else:
            return ""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
