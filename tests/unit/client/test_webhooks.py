"""Receivers accept what a webhook signed, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_api.webhooks.signatures import create_secret, sign
from kb_client.webhooks import TOLERANCE_S, WebhookNotVerified, verify

NOW = 1_764_130_000


def test_the_example_of_the_specification_is_verified() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # public
    assert verify(b'{"test": 2432232314}', headers, secrets=[secret], now_s=1614265330) == {"test": 2432232314}


@given(st.dictionaries(st.text(), st.text()), st.uuids(), st.integers(-300, 300))
def test_what_is_signed_with_either_secret_is_verified(data: dict[str, str], message_id: object, age_s: int) -> None:
    body, former, current = json.dumps(data).encode(), create_secret(), create_secret()
    headers = sign(body, message_id=str(message_id), timestamp_s=NOW - age_s, secrets_in_use=[current, former])
    upper = {name.title(): value for name, value in headers.items()}
    for secrets in ([former], [current], [create_secret(), current]):
        assert verify(body, upper, secrets=secrets, now_s=NOW) == data


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "other"},
        {"webhook-timestamp": str(NOW - 1)},
        {"webhook-timestamp": "soon"},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,\u00e9"},
        {"body": "{ }"},
        {"secret": "whsec_AAAA"},
    ],
)
def test_what_was_changed_on_the_way_is_refused(changed: dict[str, str]) -> None:
    secret = create_secret()
    signed = sign(b"{}", message_id="m", timestamp_s=NOW, secrets_in_use=[secret])
    body = changed.get("body", "{}").encode()
    with pytest.raises(WebhookNotVerified):
        verify(body, {**signed, **changed}, secrets=[changed.get("secret", secret)], now_s=NOW)


@pytest.mark.parametrize("late_s", [TOLERANCE_S + 1, -TOLERANCE_S - 1])
def test_what_was_signed_long_ago_or_in_the_future_is_refused(late_s: float) -> None:
    secret = create_secret()
    headers = sign(b"{}", message_id="m", timestamp_s=NOW, secrets_in_use=[secret])
    with pytest.raises(WebhookNotVerified):
        verify(b"{}", headers, secrets=[secret], now_s=NOW + late_s)


def test_a_request_without_the_headers_is_refused() -> None:
    with pytest.raises(WebhookNotVerified):
        verify(b"{}", {}, secrets=[create_secret()])
