"""What `kb up` says about models."""

import asyncio

import pytest

from kb_local.model_hints import address_of_ollama, find_ollama
from tests.own_servers import ollama, vllm


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://127.0.0.1:8080"),
        ("gpu.example", "http://gpu.example:11434"),
        ("gpu.example:1", "http://gpu.example:1"),
        ("http://gpu.example", "http://gpu.example:80"),
        ("https://gpu.example", "https://gpu.example:443"),
        ("http://gpu.example:11434/", "http://gpu.example:11434"),
        ('"127.0.0.1:9"', "http://127.0.0.1:9"),
        ("[::1]:9", "http://[::1]:9"),
        ("unix:///run/ollama", None),
        ("host:port", None),
    ],
)
def test_ollama_is_looked_for_where_its_own_setting_says(setting: str, address: str | None) -> None:
    assert address_of_ollama({"OLLAMA_HOST": setting}) == address


async def test_an_ollama_that_answers_is_found_and_another_server_is_not_taken_for_one() -> None:
    async with ollama() as one, vllm() as other:
        here = {"OLLAMA_HOST": f"127.0.0.1:{one.port}"}
        assert await asyncio.to_thread(find_ollama, here) == one.root
        assert await asyncio.to_thread(find_ollama, here | {"OLLAMA_API_BASE": one.root}) is None
        assert await asyncio.to_thread(find_ollama, {"OLLAMA_HOST": f"127.0.0.1:{other.port}"}) is None
    assert await asyncio.to_thread(find_ollama, here) is None
