"""A module whose packages are in an extra says which one, where only the client is installed."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("module", ["kb_client.events", "kb_client.subscriber"])
def test_publishers_and_subscribers_name_the_extra_to_install(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    for name in ("aiokafka", "aiokafka.errors"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ImportError, match=r"^the package aiokafka is not installed: it comes with the extra kafka of kb-client"
    ):
        importlib.import_module(module)
