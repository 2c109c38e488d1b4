"""Every page with the Tab key: each control is reached, in the order of the document, visibly, and in view."""

from typing import Final

import pytest
from playwright.sync_api import Browser, Page

from tests.console.conftest import Complaints, sign_in
from tests.console.console_under_test import WAIT_MS, ConsoleUnderTest
from tests.console.page_table import OPERATOR_PAGES, PAGES

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

_CONTROLS: Final = "a[href], button, input, select, textarea, summary, [tabindex]"
# Details are unfolded, so that what is within them counts. Of radio buttons, Tab reaches one of a group. Before each
# further Tab, the stop that the last one led to is noted. A round may begin in the middle, at a passage or in a dialog.
_PREPARE: Final = """(controls) => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    const place = document.querySelector("dialog:modal") ?? document;
    const radios = new Set();
    window.expectedStops = [...place.querySelectorAll(controls)].filter((each) => {
        if (each.disabled || each.tabIndex < 0 || !each.checkVisibility({ visibilityProperty: true })) return false;
        if (each.type !== "radio") return true;
        const isFirst = !radios.has(each.name);
        radios.add(each.name);
        return isFirst;
    });
    const shadows = new Map(expectedStops.map((each) => [each, getComputedStyle(each).boxShadow]));
    window.stops = [];
    window.findings = [];
    window.find = (what, each) => findings.push(`${what}: ${each.outerHTML.slice(0, 110).replace(/\\s+/g, " ")}`);
    window.isSeen = (each) => {
        const { outlineStyle, outlineWidth, outlineColor, boxShadow } = getComputedStyle(each);
        const isOutlined = outlineStyle !== "none" && parseFloat(outlineWidth) > 0 && !/, 0\\)$/.test(outlineColor);
        return isOutlined || (boxShadow !== shadows.get(each) && boxShadow !== "none");
    };
    window.isInView = (each) => [...each.getClientRects()].some((box) => {
        const [left, right] = [Math.max(box.left, 0), Math.min(box.right, innerWidth)];
        const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, innerHeight)];
        if (right - left < 1 || bottom - top < 1) return false;
        return [[0.5, 0.5], [0.1, 0.5], [0.9, 0.5], [0.5, 0.1], [0.5, 0.9]].some(([across, down]) => {
            const over = document.elementFromPoint(left + (right - left) * across, top + (bottom - top) * down);
            return each.contains(over) || each.closest("label")?.contains(over);
        });
    });
    for (const each of document.querySelectorAll("[tabindex]")) if (each.tabIndex > 0) find("tabindex above 0", each);
    window.isRound = false;
    let wraps = 0;
    addEventListener("keydown", () => {
        const stop = document.activeElement;
        const last = stops.at(-1);
        window.isRound ||= stops.length > 0 && stop === stops[0] && stop !== last;
        if (isRound || stop === last || !expectedStops.includes(stop)) return;
        if (stops.includes(stop)) find("the focus returns to", stop);
        const follows = !last || last.compareDocumentPosition(stop) & Node.DOCUMENT_POSITION_FOLLOWING;
        if (!follows && ++wraps > 1) find("out of order", stop);
        if (!isSeen(stop)) find("no focus indicator", stop);
        if (!isInView(stop)) find("out of view or covered", stop);
        stops.push(stop);
    }, { capture: true });
    return expectedStops.length;
}"""
_COMPARE: Final = """() => {
    const present = expectedStops.filter((each) => each.isConnected);
    for (const each of present) if (!stops.includes(each)) find("not reached", each);
    return findings;
}"""
_ON_A_PHONE: Final = """() => {
    window.findings = [];
    for (const each of expectedStops.filter((each) => each.isConnected && each.checkVisibility())) {
        each.focus({ focusVisible: true });
        if (!isSeen(each)) find("no focus indicator on a dark phone", each);
        if (!isInView(each)) find("out of view or covered on a dark phone", each);
    }
    return findings;
}"""
_LARGE: Final = {"width": 1280, "height": 800}
_PHONE: Final = {"width": 360, "height": 740}


def test_tab_reaches_every_control_of_every_page(
    browser: Browser, console: ConsoleUnderTest, complaints: Complaints, *, examples: dict[str, str]
) -> None:
    complaints.expected.add("404")  # of the document that does not exist
    context = browser.new_context(viewport=_LARGE, reduced_motion="reduce")
    complaints.watch(context)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{console.base_url}/console/sign-in")
    findings = [f"sign-in: {each}" for each in walk(page)]
    sign_in(page, console)
    for listed in (*PAGES, *OPERATOR_PAGES):
        page.goto(console.of_organization(listed.path.format_map(examples)))
        findings += [f"{listed.name}: {each}" for each in walk(page)]
    context.close()
    assert not findings, "\n".join(findings)


def walk(page: Page) -> list[str]:
    """Tab once through the page, then look at each stop on a dark phone, and return what is wrong."""
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(_LARGE)
    count = page.evaluate(_PREPARE, _CONTROLS)
    presses = 0
    while not page.evaluate("window.isRound"):
        if presses > 3 * count + 20:  # fields of dates have several stops
            return ["the focus is trapped", *page.evaluate(_COMPARE)]
        for _ in range(4 if presses else count):
            page.keyboard.press("Tab")
            presses += 1
    found = page.evaluate(_COMPARE)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(_PHONE)
    return [*found, *page.evaluate(_ON_A_PHONE)]
