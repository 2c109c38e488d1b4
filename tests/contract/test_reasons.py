"""A refusal says the same on Kafka and over HTTP: which field, what is wrong, what is allowed."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_core._pydantic_core import list_all_errors

from kb_contracts.cloudevents import Envelope
from kb_contracts.documents import DOCUMENT_EVENTS, OcrCompleted, TagIds
from kb_contracts.metadata import MetadataValue
from kb_contracts.reasons.field_reasons import MAX_ERRORS, FieldReason, describe, reasons, why_not
from kb_contracts.reasons.patterns import form_of
from kb_contracts.reasons.shown_values import MAX_SHOWN_CHARACTERS
from tests.contract.wrong_events import DATA, ENVELOPE, SNAPSHOT, WRONG, refusal

ROOT = Path(__file__).parents[2]
FOREIGN = re.compile(
    r"pydantic|function-|constrained|union\[|list\[|dict\[|Input should|Value error|valid string|valid dictionary|"
    r"StrictInt|DateValue|OcrCompleted|PageOfText|Envelope|(?<!content)(?<!ce)_type\b|_parsing\b|datetime\b|validator|traceback|\bNone\b|"
    r"dictionary|boolean|\bstring\b|\bint\b|\bfloat\b|\bbool\b|\bstr\b|Extra inputs|Field required",
)
"""Words of pydantic and Python, which no sender has to know."""
PRIVATE = ("document_name", "text", "text_ref", "metadata", "content_type", "source_digest", "embedding_text")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=100)
    | st.sampled_from(["2026-01-31", "9" * 90, "x" * 9_000, "a b", "\ud800", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=80), inner, max_size=3),
    max_leaves=8,
)


def _refused(model: Any, value: object) -> ValidationError | None:
    try:
        TypeAdapter(model).validate_python(value)
    except ValidationError as error:
        return error
    return None


def _texts(value: object) -> list[str]:
    """Return all texts in a value, and all names."""
    if isinstance(value, dict):
        return [*value, *(text for each in value.values() for text in _texts(each))]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def test_each_wrong_event_has_the_reason_that_was_agreed_on() -> None:
    """Compare all reasons; `python -m tests.contract.wrong_events` writes them again."""
    assert len(WRONG) >= 150
    assert {name: refusal(value) for name, value in WRONG.items()} == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", WRONG)
def test_a_reason_has_no_word_of_the_library_that_checks(name: str) -> None:
    reason = refusal(WRONG[name])
    assert reason != "accepted"
    if name not in {"None of Python", "True of Python"}:
        assert FOREIGN.search(reason) is None


def test_every_kind_of_error_has_a_sentence_of_ours() -> None:
    fallback = "must have the form that the reference describes"
    seen_fallback = set()
    for kind in list_all_errors():
        name = kind["type"]
        context = {key: _of_type(value) for key, value in (kind["example_context"] or {}).items()}
        if name in {"value_error", "assertion_error"}:
            context = {"error": RuntimeError("must not appear")}
        details = InitErrorDetails(type=name, loc=("field",), input={"a": 1}, ctx=context)
        (reason,) = reasons(ValidationError.from_exception_data("x", [details]), Any) or [
            FieldReason("field", fallback)
        ]
        assert reason.field == "field"
        assert FOREIGN.search(reason.message) is None, name
        assert "must not appear" not in reason.message
        assert re.match(r"(must|is|can't|has) ", reason.message), (name, reason.message)
        if reason.message == fallback:
            seen_fallback.add(name)
    # None of our models can raise these, and each pattern has words of its own.
    assert seen_fallback <= {
        "no_such_attribute", "needs_python_object", "get_attribute_error", "iteration_error", "value_error",
        "assertion_error", "missing_sentinel_error", "ellipsis_error", "is_instance_of", "is_subclass_of",
        "callable_type", "default_factory_not_called", "set_item_not_hashable", "uuid_version",
        "unexpected_positional_argument", "multiple_argument_values", "bytes_invalid_encoding",
        "string_pattern_mismatch",
    }  # fmt: skip


def _of_type(value: object) -> Any:
    return "text" if isinstance(value, str) else 2


def test_an_error_of_another_program_does_not_repeat_its_words() -> None:
    error = PydanticCustomError("of_somebody", "it is {value}", {"value": "private"})
    details = InitErrorDetails(type=error, loc=("a",), input="private")
    found = describe(ValidationError.from_exception_data("x", [details]), Any)
    assert found == "a: must have the form that the reference describes"


def _as_ascii(text: str) -> str:
    text.encode("ascii")
    return text


def test_an_error_of_a_library_within_a_validator_does_not_repeat_its_words() -> None:
    error = _refused(Annotated[str, AfterValidator(_as_ascii)], "pass\u00fc")
    assert error is not None
    assert describe(error, str) == "value: must have the form that the reference describes"


@given(st.sampled_from(sorted(OcrCompleted.model_fields)), json_values)
def test_any_value_in_place_of_any_field_is_refused_without_its_text(field: str, value: Any) -> None:
    error = _refused(OcrCompleted, {**DATA, field: value})
    if error is None:
        return
    reason = describe(error, OcrCompleted)
    _assert_in_our_language(reason)
    for text in filter(_is_telling, _texts(value)):
        assert len(text) <= MAX_SHOWN_CHARACTERS or text[: MAX_SHOWN_CHARACTERS + 1] not in reason
        assert field not in PRIVATE or text not in reason


def _is_telling(text: str) -> bool:
    """Return whether a text is no plain name, nothing like a date, and not in a reason by chance."""
    return len(text) > 3 and re.fullmatch(r"[\w.$-]*|[+-]?\.?\d.*", text, re.ASCII | re.DOTALL) is None


@given(st.sampled_from(sorted(Envelope.model_fields)), json_values)
def test_any_value_in_the_envelope_is_refused_in_our_language(field: str, value: Any) -> None:
    if error := _refused(Envelope, {**ENVELOPE, field: value}):
        _assert_in_our_language(describe(error, Envelope))


@given(st.sampled_from(sorted(DOCUMENT_EVENTS)), json_values)
def test_any_data_are_refused_in_our_language(kind: str, value: Any) -> None:
    if error := _refused(DOCUMENT_EVENTS[kind], value):
        _assert_in_our_language(describe(error, DOCUMENT_EVENTS[kind]))


def _assert_in_our_language(reason: str) -> None:
    reason.encode()
    # What is quoted is the sender's.
    assert FOREIGN.search(re.sub(r'"(?:[^"\\]|\\.)*"', '""', reason)) is None


SECRET = "a private word of somebody 4711"


@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        [SECRET],
        {SECRET: SECRET},
        {"a": SECRET},
        [{"a": [SECRET]}],
        SECRET + "\0",
        SECRET + "\ud800",
        SECRET * 999,
    ],
    ids=range(8),
)
@pytest.mark.parametrize("field", [*PRIVATE, "pages", "revision", "upload_date"])
def test_no_part_of_a_private_text_is_repeated(field: str, value: Any) -> None:
    if error := _refused(OcrCompleted, {**DATA, field: value}):
        assert "private" not in describe(error, OcrCompleted)


@pytest.mark.parametrize("field", sorted({*PRIVATE} - {"metadata"}))
def test_a_number_in_place_of_a_free_text_is_not_repeated(field: str) -> None:
    if error := _refused(OcrCompleted, {**DATA, field: 471_147}):
        assert "471" not in describe(error, OcrCompleted)


def test_an_identifier_shows_where_it_is_wrong() -> None:
    error = _refused(TagIds, ["hr", "human resources"])
    assert error is not None
    assert reasons(error, TagIds) == [
        FieldReason(
            "1",
            'must be 1 to 128 of A-Z a-z 0-9 . _ -, not "human resources": character 6 is a space',
        )
    ]


def test_the_reason_of_one_bad_value_can_be_asked_for() -> None:
    values: TypeAdapter[Any] = TypeAdapter(MetadataValue)
    assert why_not(values, 1) == []
    (reason,) = why_not(values, ["Ada"])
    assert reason == FieldReason(
        "",
        'must be true or false, a number, a text or a date {"$date": "2026-01-31T12:00:00Z"}, not a list of 1 item',
    )


def test_more_errors_than_anyone_reads_are_counted_and_not_listed() -> None:
    error = _refused(OcrCompleted, {**DATA, "pages": [{}] * MAX_ERRORS})
    assert error is not None
    assert describe(error, OcrCompleted) == "value: has 3,000 errors, too many to list"


def test_nothing_is_quoted_where_names_and_values_may_be_secrets() -> None:
    value = {**DATA, "document_id": "s3 cret", "revision": 471_147, "tag_ids": 5, "metadata": {"s3cret": []}}
    error = _refused(OcrCompleted, value)
    assert error is not None
    reason = describe(error, OcrCompleted, quotes=False)
    assert re.search("s3|471", reason) is None
    assert "metadata.?: must be" in reason


def _patterns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(pattern := value.get("pattern"), str):
            yield pattern
        yield from value.get("patternProperties", ())
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _patterns(each)


def test_each_pattern_of_the_api_and_of_events_has_words() -> None:
    # Those of the AsyncAPI document are of keys and headers, which have reasons of their own.
    documents = [ROOT / "docs" / "openapi.json", *(ROOT / "docs" / "schemas").glob("*.v1.json")]
    found = {pattern for each in documents for pattern in _patterns(json.loads(each.read_text(encoding="utf-8")))}
    assert len(found) > 20
    # A filter is read by the search, which has words of its own.
    found = {pattern for pattern in found if "prototype" not in pattern and "$and" not in pattern}
    assert [pattern for pattern in found if "reference" in form_of(pattern).words] == []
    for pattern in found:
        assert re.match(r"(be|have) ", form_of(pattern).words)
        assert "\\" not in form_of(pattern).words, pattern


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"^[A-Za-z0-9._-]{1,128}$", "be 1 to 128 of A-Z a-z 0-9 . _ -"),
        (r"^[0-9a-f]{24}$", "be 24 of 0-9 a-f"),
        (r"^[a-z0-9_]{1,40}(,[a-z0-9_]{1,40}){0,19}$", "be 1 to 20 with commas between, each 1 to 40 of a-z 0-9 _"),
        (r"^(?:kb|day)(?:,(?:kb|day))*$", "be one or more of kb, day, with commas between"),
        (r"^[^a](b|c)+$", "have the form that the reference describes"),
    ],
)
def test_a_pattern_is_said_in_characters(pattern: str, words: str) -> None:
    assert form_of(pattern).words == words


def _messages_of_validators() -> Iterator[tuple[str, str]]:
    """Yield where the contracts raise a ValueError, and how its message begins."""
    for path in sorted((ROOT / "contracts" / "kb_contracts").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ValueError":
                (message,) = node.args
                first = message.values[0] if isinstance(message, ast.JoinedStr) else message
                if isinstance(first, ast.Constant):
                    yield f"{path.name}:{node.lineno}", str(first.value)


def test_each_message_of_a_validator_completes_the_name_of_its_field() -> None:
    found = list(_messages_of_validators())
    assert len(found) > 5
    assert [each for each in found if not re.match(r"(must|is|can't|has) ", each[1])] == []
