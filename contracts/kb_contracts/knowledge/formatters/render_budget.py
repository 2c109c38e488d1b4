"""The limits of a template, and of each rendering of it."""

from dataclasses import dataclass
from typing import Final

MAX_TEMPLATE_CHARACTERS: Final = 20_000
MAX_RENDER_STEPS: Final = 50_000
"""Limit of the parts of a template that one rendering evaluates: about 0.1 s."""
MAX_RENDER_CHARACTERS: Final = 2_000_000
"""Limit of the characters of all texts that one rendering makes, also of those that it does not write."""
_CHARACTERS_PER_STEP: Final = 1_000


class UnusableTemplate(ValueError):
    """A template that can't be used, or not with this knowledge. The message does not quote it."""


@dataclass(slots=True)
class RenderBudget:
    """The part of the limits that is left to one rendering."""

    steps: int = MAX_RENDER_STEPS
    characters: int = MAX_RENDER_CHARACTERS

    def spend(self, steps: int = 1) -> None:
        """Take steps before they are made."""
        self.steps -= steps
        if self.steps < 0:
            raise UnusableTemplate(f"takes more than {MAX_RENDER_STEPS} steps; use fewer loops")

    def spend_reading(self, characters: int) -> None:
        """Take the steps of comparing or searching a text."""
        self.spend(characters // _CHARACTERS_PER_STEP)

    def spend_characters(self, characters: int) -> None:
        """Take characters before a text of this length is made."""
        self.characters -= characters
        if self.characters < 0:
            raise UnusableTemplate(f"makes more than {MAX_RENDER_CHARACTERS} characters; use fewer loops")

    def produce(self, text: str) -> str:
        """Return a text after taking its characters."""
        self.spend_characters(len(text))
        return text


def check_length(template: str) -> None:
    if len(template) > MAX_TEMPLATE_CHARACTERS:
        raise UnusableTemplate(f"has more than {MAX_TEMPLATE_CHARACTERS} characters; shorten it")
