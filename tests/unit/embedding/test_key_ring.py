import base64

import pytest

from kb_shared.secrets.key_ring import KeyRing, Unreadable, UnusableKeyRing

SECRET = "sk-secret"
BOUND = {"organization_id": "acme", "provider": "openai"}


def encoded(byte: int, length: int = 32) -> str:
    return base64.b64encode(bytes([byte]) * length).decode()


def test_the_first_key_seals_and_all_open() -> None:
    old = KeyRing.parse(f"1:{encoded(1)}")
    sealed = old.seal(SECRET, **BOUND)
    rotated = KeyRing.parse(f"2:{encoded(2)}, 1:{encoded(1)}")

    assert rotated.open(sealed, **BOUND) == SECRET
    assert rotated.seal(SECRET, **BOUND).key_id == "2"
    with pytest.raises(Unreadable, match="'2'"):
        old.open(rotated.seal(SECRET, **BOUND), **BOUND)


@pytest.mark.parametrize(
    "bound", [{"organization_id": "other", "provider": "openai"}, {"organization_id": "acme", "provider": "azure"}]
)
def test_a_sealed_key_can_not_be_opened_for_another_owner(bound: dict[str, str]) -> None:
    ring = KeyRing.parse(f"1:{encoded(1)}")

    with pytest.raises(Unreadable):
        ring.open(ring.seal(SECRET, **BOUND), **bound)


def test_the_same_key_is_never_sealed_the_same_way_twice() -> None:
    ring = KeyRing.parse(f"1:{encoded(1)}")

    assert ring.seal(SECRET, **BOUND) != ring.seal(SECRET, **BOUND)


@pytest.mark.parametrize(
    "setting",
    ["", "1", f":{encoded(1)}", f"1:{encoded(1, 16)}", "1:%%%", f"1:{encoded(1)},1:{encoded(2)}", f"1:{encoded(1)},"],
)
def test_a_ring_that_is_not_one_is_refused_without_quoting_it(setting: str) -> None:
    with pytest.raises(UnusableKeyRing) as refused:
        KeyRing.parse(setting)
    assert encoded(1) not in str(refused.value)


def test_keys_are_not_shown() -> None:
    assert repr(bytes([1])) not in repr(KeyRing.parse(f"1:{encoded(1)}"))
