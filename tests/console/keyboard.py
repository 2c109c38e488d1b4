"""Hands on a keyboard: nothing here uses the mouse, or sets a value behind the back of the page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import Locator, Page, expect

_MOST_STOPS: Final = 250
_HAS_FOCUS: Final = "node => node === document.activeElement"


@dataclass(frozen=True, slots=True)
class Keyboard:
    page: Page

    def go_to(self, target: Locator, *, backwards: bool = False) -> None:
        """Press Tab until the target has the focus, which is to happen within a round through the page."""
        expect(target).to_be_visible()
        for _ in range(_MOST_STOPS):
            if target.evaluate(_HAS_FOCUS):
                return
            self.page.keyboard.press("Shift+Tab" if backwards else "Tab")
        raise AssertionError(f"{target} can't be reached with the keyboard on {self.page.url}")

    def press(self, target: Locator, key: str = "Enter") -> None:
        self.go_to(target)
        self.page.keyboard.press(key)

    def write(self, target: Locator, text: str) -> None:
        self.go_to(target)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def choose_file(self, target: Locator, file: Path) -> None:
        with self.page.expect_file_chooser() as chooser:
            # On the way there, the browser is told to hand over the dialog; a busy one would open it before.
            self.go_to(target)
            self.page.keyboard.press("Enter")
        chooser.value.set_files(file)
