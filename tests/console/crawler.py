"""Follows every link, every form that only reads, and every part that a page asks for by itself."""

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urljoin, urlsplit

MOST_OF_A_SHAPE: Final = 4
"""Addresses that are followed of those that differ only in the values of their parameters, such as filters."""
SLOW_S: Final = 0.3
TRIES: Final = 3
_OF_FORMS: Final = frozenset({"form", "select", "option", "input", "button"})
_LOOP_S: Final = 0.1
_TYPED: Final = "pump"
_OF_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_PARTIAL: Final = {"HX-Request": "true", "HX-Request-Type": "partial"}


@dataclass(frozen=True, slots=True)
class CrawledAnswer:
    status: int
    location: str | None
    content_type: str
    text: str
    seconds: float


class SignedInReader:
    """Somebody who is signed in with a key, and keeps one connection."""

    def __init__(self, base_url: str, *, api_key: str) -> None:
        self.base_url = base_url
        self._connection = HTTPConnection(urlsplit(base_url).netloc, timeout=60)
        self._cookie = self._sign_in(api_key)

    def get(self, path: str, *, is_part: bool = False) -> CrawledAnswer:
        return self._ask("GET", path, headers=_PARTIAL if is_part else {})

    def post(self, path: str, fields: dict[str, str]) -> CrawledAnswer:
        return self._ask("POST", path, urlencode(fields), headers=_OF_FORM | {"Origin": self.base_url})

    def _ask(self, method: str, path: str, body: str | None = None, *, headers: dict[str, str]) -> CrawledAnswer:
        began = time.perf_counter()
        self._connection.request(method, path, body, {**headers, "Cookie": self._cookie})
        response = self._connection.getresponse()
        content = response.read()
        seconds = time.perf_counter() - began
        content_type = response.headers.get("Content-Type", "")
        text = content.decode() if content_type.startswith("text/") else ""
        return CrawledAnswer(response.status, response.headers.get("Location"), content_type, text, seconds)

    def _sign_in(self, api_key: str) -> str:
        headers = _OF_FORM | {"Origin": self.base_url}
        self._connection.request("POST", "/console/sign-in", urlencode({"api_key": api_key}), headers)
        response = self._connection.getresponse()
        response.read()
        assert response.status == 303, response.status
        return response.headers["Set-Cookie"].partition(";")[0]


def _stretch() -> float:
    """Return how often this process is not run while it could be: 2 if something else takes half of its time."""
    began, cpu_began = time.perf_counter(), time.process_time()
    while (cpu_s := time.process_time() - cpu_began) < _LOOP_S:
        pass
    return max(1.0, (time.perf_counter() - began) / cpu_s)


@dataclass(slots=True)
class GetForm:
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    """Name and value, as the form is sent without a change."""
    choices: list[tuple[str, str]] = field(default_factory=list)
    """Other values of its fields."""
    buttons: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    """Target of each button, with the fields that it adds."""

    @property
    def shape(self) -> tuple[object, ...]:
        names = {name for name, _ in (*self.fields, *self.choices)}
        return self.action.partition("?")[0], tuple(sorted(names))

    def addresses(self) -> Iterator[str]:
        """Yield where its buttons lead to, without a change."""
        for action, added in self.buttons:
            yield self._address(action, self.fields + added)

    def changed_addresses(self) -> Iterator[str]:
        """Yield where it leads to with one other value."""
        for action, added in self.buttons[:1]:
            for name, value in self.choices:
                yield self._address(action, [*(each for each in self.fields if each[0] != name), (name, value), *added])

    @staticmethod
    def _address(action: str, fields: list[tuple[str, str]]) -> str:
        return f"{action.partition('?')[0]}?{urlencode(fields)}"


class FoundAddresses(HTMLParser):
    """Collects where a page leads to, what it loads, and the places of it that a link can name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.files: list[str] = []
        self.parts: list[str] = []
        self.forms: list[GetForm] = []
        self.ids: set[str] = set()
        self._form: GetForm | None = None
        self._named: dict[str, GetForm] = {}
        self._select: str | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found["id"]} if "id" in found else set()
        match tag, found:
            case "a", {"href": address}:
                self.links.append(address)
            case ("link", {"href": address}) | ("script" | "img", {"src": address}):
                self.files.append(address)
            case ("div" | "section" | "article" | "li", {"hx-get": address}):
                self.parts.append(address)
        if tag in _OF_FORMS:
            self._add_to_form(tag, found)

    def _add_to_form(self, tag: str, found: dict[str, str]) -> None:
        form = self._named.get(found["form"]) if "form" in found else self._form
        match tag:
            case "form" if found.get("method", "get") == "get":
                self._form = GetForm(found.get("action", ""))
                self.forms.append(self._form)
                self._named[found.get("id", "")] = self._form
            case "select":
                self._select = found.get("name")
            case "option" if form is not None and self._select is not None and "value" in found:
                self._add_option(form, self._select, found)
            case "input" if form is not None and "name" in found and "disabled" not in found:
                self._add_input(form, found)
            case "button" if form is not None and "disabled" not in found:
                added = [(found["name"], found.get("value", ""))] if "name" in found else []
                form.buttons.append((found.get("formaction", form.action), added))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        if tag == "select":
            self._select = None

    @staticmethod
    def _add_option(form: GetForm, name: str, found: dict[str, str]) -> None:
        is_first = all(each != name for each, _ in form.fields)
        if "selected" in found:
            form.fields = [each for each in form.fields if each[0] != name]
        # A browser sends the first option of a list in which none is selected.
        (form.fields if is_first or "selected" in found else form.choices).append((name, found["value"]))

    @staticmethod
    def _add_input(form: GetForm, found: dict[str, str]) -> None:
        name, value = found["name"], found.get("value", "")
        match found.get("type", "text"):
            case "checkbox" | "radio":
                (form.fields if "checked" in found else form.choices).append((name, value or "on"))
            case "hidden":
                form.fields.append((name, value))
            case "search" | "text" if "inputmode" not in found:
                form.fields.append((name, value or (_TYPED if "required" in found else "")))
                form.choices.append((name, _TYPED))
            case _:
                form.fields.append((name, value))


@dataclass(slots=True)
class CrawlOutcome:
    """Addresses that were read, and mistakes that they have."""

    seconds: dict[str, float] = field(default_factory=dict)
    """Time that the console took for each address."""
    findings: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Addresses that this key may not read, with the page that led there."""
    elsewhere: set[str] = field(default_factory=set)
    """Links to other hosts."""
    left_out: int = 0

    def slowest(self, count: int) -> list[str]:
        pages = sorted(self.seconds.items(), key=lambda each: each[1], reverse=True)
        return [f"{seconds * 1000:4.0f} ms {address}" for address, seconds in pages[:count]]


@dataclass(frozen=True, slots=True)
class _CrawlStep:
    address: str
    comes_from: str
    is_part: bool = False


class ConsoleCrawler:
    """Reads all pages that can be reached from the first one."""

    def __init__(self, reader: SignedInReader) -> None:
        self._reader = reader
        self._crawl = CrawlOutcome()
        self._waiting: deque[_CrawlStep] = deque()
        self._slow: list[_CrawlStep] = []
        self._seen: set[tuple[str, bool]] = set()
        self._shapes: dict[tuple[object, ...], int] = defaultdict(int)
        self._forms: set[tuple[object, ...]] = set()
        self._ids: dict[str, set[str]] = {}
        """Places of each page that was read."""
        self._places: dict[tuple[str, str], str] = {}
        """Places that links name, with the page that has the link."""

    def run(self, first: str) -> CrawlOutcome:
        self._enqueue(first, comes_from="the beginning")
        while self._waiting:
            self._read(self._waiting.popleft())
        for step in self._slow:
            self._measure_again(step)
        for (page, place), comes_from in self._places.items():
            if page in self._ids and place not in self._ids[page]:
                self._find(f"{page} has no #{place}", comes_from)
        return self._crawl

    def _measure_again(self, step: _CrawlStep) -> None:
        """Find a page slow only if it is so again when everything else was read: the machine may have been busy."""
        seconds = self._crawl.seconds[step.address]
        for _ in range(TRIES):
            if seconds > SLOW_S:
                seconds = min(seconds, self._reader.get(step.address, is_part=step.is_part).seconds / _stretch())
        self._crawl.seconds[step.address] = seconds
        if seconds > SLOW_S:
            self._find(f"{step.address} takes {seconds:.2f} s", step.comes_from)

    def _read(self, step: _CrawlStep) -> None:
        answer = self._reader.get(step.address, is_part=step.is_part)
        self._crawl.seconds[step.address] = answer.seconds
        if answer.seconds > SLOW_S:
            self._slow.append(step)
        if answer.location is not None:
            self._enqueue(urljoin(step.address, answer.location), comes_from=step.address)
        elif answer.status == 403:
            self._crawl.refused[step.address] = step.comes_from
            if "scope" not in answer.text:
                self._find(f"{step.address} is refused without a reason", step.comes_from)
        elif answer.status != 200:
            self._find(f"{step.address} answers {answer.status}", step.comes_from)
        elif answer.content_type.startswith("text/html"):
            found = FoundAddresses(answer.text)
            if not step.is_part:
                self._ids[step.address] = found.ids
            self._follow(found, page=step.address)

    def _follow(self, found: FoundAddresses, *, page: str) -> None:
        for link in found.links:
            self._enqueue(urljoin(page, link), comes_from=page)
        for part in found.parts:
            self._enqueue(urljoin(page, part), comes_from=page, is_part=True)
        for file in found.files:
            if urlsplit(file).netloc:
                self._find(f"{file} is loaded from elsewhere", page)
            else:
                self._enqueue(file, comes_from=page)
        for form in found.forms:
            for address in form.addresses():
                self._enqueue(urljoin(page, address), comes_from=page)
            # Its choices once: together with what is chosen already there would be no end.
            if form.shape not in self._forms:
                self._forms.add(form.shape)
                for address in form.changed_addresses():
                    self._enqueue(urljoin(page, address), comes_from=page, is_change=True)

    def _enqueue(self, address: str, *, comes_from: str, is_part: bool = False, is_change: bool = False) -> None:
        parts = urlsplit(address)
        if parts.netloc and f"{parts.scheme}://{parts.netloc}" != self._reader.base_url:
            self._crawl.elsewhere.add(address)
            return
        if parts.scheme not in {"", "http", "https"}:
            self._find(f"{address} is no address of a page", comes_from)
            return
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        if parts.fragment:
            self._places.setdefault((target, unquote(parts.fragment)), comes_from)
        if (target, is_part) in self._seen:
            return
        shape = (parts.path, is_part, tuple(sorted(name for name, _ in parse_qsl(parts.query))))
        if parts.query and not is_change:
            self._shapes[shape] += 1
            if self._shapes[shape] > MOST_OF_A_SHAPE:
                self._crawl.left_out += 1
                return
        self._seen.add((target, is_part))
        self._waiting.append(_CrawlStep(target, comes_from, is_part))

    def _find(self, what: str, page: str) -> None:
        self._crawl.findings.append(f"{what}, on {page}")
