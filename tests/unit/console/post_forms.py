"""Forms of pages that change something, filled in as a person would."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urlsplit

FILE: Final = ("note.txt", b'{"pieces": [{"content": "The key is under the mat."}]}')
_TYPED: Final = {"url": "https://example.com", "number": "1", "date": "2026-01-31"}


@dataclass(frozen=True, slots=True)
class Button:
    """A control that sends a form."""

    form: str
    """Id of its form: a number, if the form has none."""
    action: str | None
    added: dict[str, list[str]]
    is_disabled: bool
    title: str


@dataclass(slots=True)
class PostForm:
    action: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sending:
    """Path and fields that a button sends."""

    path: str
    fields: dict[str, list[str]]
    files: dict[str, tuple[str, bytes]]
    button: Button


class FoundPostForms(HTMLParser):
    """Collects the forms of a page that are posted, and their buttons."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._forms: dict[str, PostForm] = {}
        self._buttons: list[Button] = []
        self._form: str | None = None
        self._count = 0
        self._select: str | None = None
        self._textarea: tuple[PostForm, str] | None = None
        self.feed(page)
        self.close()

    def sendings(self) -> Iterator[Sending]:
        for button in self._buttons:
            if (form := self._forms.get(button.form)) is not None:
                path = urlsplit(button.action or form.action).path
                yield Sending(path, form.fields | button.added, form.files, button)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._count += 1
            self._form = found.get("id") or str(self._count)
            if found.get("method") == "post":
                self._forms[self._form] = PostForm(found.get("action", ""))
            return
        owner = found.get("form", self._form)
        if tag == "button" and owner is not None and found.get("type", "submit") == "submit":
            added = {found["name"]: [found.get("value", "")]} if "name" in found else {}
            is_disabled = "disabled" in found
            self._buttons.append(Button(owner, found.get("formaction"), added, is_disabled, found.get("title", "")))
        elif (form := self._forms.get(owner or "")) is not None:
            self._add_field(form, tag, found)

    def handle_data(self, data: str) -> None:
        if self._textarea is not None and data.strip():
            form, name = self._textarea
            form.fields[name] = [data.removeprefix("\n")]

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "form":
                self._form = None
            case "select":
                self._select = None
            case "textarea":
                self._textarea = None

    def _add_field(self, form: PostForm, tag: str, found: dict[str, str]) -> None:
        name = found.get("name", "")
        match tag, found.get("type", "text"):
            case "select", _:
                self._select = name
            case "option", _ if self._select is not None:
                if "selected" in found or self._select not in form.fields:
                    form.fields[self._select] = [found.get("value", "")]
            case "textarea", _:
                form.fields[name] = ["Text."] if "required" in found else [""]
                self._textarea = (form, name)
            case "input", "file":
                form.files[name] = FILE
            case "input", "checkbox":
                form.fields.setdefault(name, []).append(found.get("value", "on"))
            case "input", "radio":
                if "checked" in found or name not in form.fields:
                    form.fields[name] = [found.get("value", "on")]
            case "input", kind:
                filled = _TYPED.get(kind, "typed") if "required" in found else ""
                form.fields[name] = [found.get("value") or filled]
