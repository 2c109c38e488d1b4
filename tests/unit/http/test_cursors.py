"""A cursor is good for one position in one list of one organization, whatever is done to it."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.errors import RequestError
from kb_shared.http.cursors import Cursors, CursorScope
from kb_shared.secrets.peppers import Peppers

CURSORS = Cursors(Peppers("pepper"))
SCOPE = CursorScope("acme", "documents", {"tag_id": "a", "sort": None})


def refuses(scope: CursorScope, cursor: str, cursors: Cursors = CURSORS) -> bool:
    with pytest.raises(RequestError) as refused:
        cursors.read(scope, cursor)
    return (refused.value.status, refused.value.slug) == (422, "validation-error")


@given(st.text(max_size=40))
def test_a_cursor_is_of_one_list_with_its_filters_and_of_one_organization(position: str) -> None:
    cursor = CURSORS.create(SCOPE, position)
    assert CURSORS.read(SCOPE, cursor) == position
    assert CURSORS.read(replace(SCOPE, filters={"sort": None, "tag_id": "a"}), cursor) == position
    assert refuses(replace(SCOPE, organization_id="acme2"), cursor)
    assert refuses(replace(SCOPE, name="jobs"), cursor)
    for filters in ({}, {"tag_id": "a"}, {"tag_id": "b", "sort": None}, {"tag_id": "a", "sort": "None"}):
        assert refuses(replace(SCOPE, filters=filters), cursor)


@given(st.text(max_size=20), st.integers(min_value=0), st.integers(1, 255))
def test_a_cursor_that_was_changed_is_refused(position: str, at: int, bits: int) -> None:
    cursor = CURSORS.create(SCOPE, position)
    made = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    flipped = bytearray(made)
    flipped[at % len(made)] ^= bits
    for changed in (flipped, made + b"x", made[:-1]):
        assert refuses(SCOPE, base64.urlsafe_b64encode(changed).decode().rstrip("="))


@pytest.mark.parametrize("given_cursor", ["", "é", "=", "a", "-_-_", "A" * 1_000])
def test_what_is_no_cursor_is_refused(given_cursor: str) -> None:
    assert refuses(SCOPE, given_cursor)


def test_a_cursor_of_a_former_pepper_is_good_as_long_as_its_keys_are() -> None:
    cursor = CURSORS.create(SCOPE, "d1")
    assert Cursors(Peppers("new", former=("pepper",))).read(SCOPE, cursor) == "d1"
    assert refuses(SCOPE, cursor, Cursors(Peppers("new")))


def test_the_last_page_has_no_next_one() -> None:
    assert CURSORS.create_next(SCOPE, ["a", "b"], limit=3, position=str) is None
    following = CURSORS.create_next(SCOPE, ["a", "b"], limit=2, position=str)
    assert following is not None
    assert CURSORS.read(SCOPE, following) == "b"
