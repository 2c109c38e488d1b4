import pytest

from kb_api.media_types import choose_media_type
from kb_shared.errors import RequestError

JSON, CSV = OFFERED = ("application/json", "text/csv")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("text/csv", CSV),
        ("TEXT/CSV ; charset=utf-8", CSV),
        ("text/*, application/json;q=0.9", CSV),
        ("text/csv;q=0.5, application/json;q=0.5", JSON),
        ("text/csv;q=0.1, */*", JSON),
        ("application/json;q=0, */*;q=0.1", CSV),
        ("text/csv;q=nan", CSV),
        (",;,q=1,text/csv", CSV),
    ],
)
def test_the_media_type_that_the_caller_likes_best_is_chosen(accept: str | None, chosen: str) -> None:
    assert choose_media_type(accept, offered=OFFERED) == chosen


@pytest.mark.parametrize("accept", ["text/html", "application/*;q=0", "text/csv;q=0", "nonsense"])
def test_a_caller_who_accepts_nothing_that_is_offered_is_refused(accept: str) -> None:
    with pytest.raises(RequestError) as refused:
        choose_media_type(accept, offered=OFFERED)
    assert (refused.value.status, refused.value.slug) == (406, "not-acceptable")
