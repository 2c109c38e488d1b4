"""Delimits data in prompts, so that a model can tell it from instructions."""

import json
import secrets
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PromptDelimiter:
    """Delimiter of data in the prompts of one run. It is random, so no document can contain it."""

    marker: str

    @classmethod
    def create(cls) -> "PromptDelimiter":
        return cls(secrets.token_hex(8))

    def wrap(self, data: Any) -> str:
        """Return `data` as one line of JSON between two lines with the marker, which is removed from the data."""
        return self.enclose(json.dumps(data, ensure_ascii=False))

    def enclose(self, text: str) -> str:
        """Return a text between two lines with the marker, which is removed from the text."""
        return f"<<<{self.marker}>>>\n{text.replace(self.marker, '')}\n<<<end {self.marker}>>>"
