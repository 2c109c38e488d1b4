"""Answers of embedding providers to three texts as they are seen in the wild, each with what it means."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

VECTORS: Final = [[3.0, 1.0], [1.0, 2.0], [2.0, 5.0]]


@dataclass(frozen=True)
class Variation:
    """One answer."""

    name: str
    body: str
    error: str | None = None
    """Type of the error; None where the vectors are those of the texts."""
    says: str = ""
    """Part of what the error says."""
    status: int = 200
    kind: str = "application/json"


def entry(at: int, vector: Any = None, **more: Any) -> dict[str, Any]:
    return {"object": "embedding", "index": at, "embedding": VECTORS[at] if vector is None else vector} | more


def packed(vector: list[float], kind: str = "<f4") -> str:
    return base64.b64encode(np.array(vector, dtype=kind).tobytes()).decode()


def right() -> Iterator[Variation]:
    all_three = [entry(at) for at in range(3)]

    def answer(name: str, data: Any, **more: Any) -> Variation:
        return Variation(name, json.dumps({"object": "list", "model": "m", "data": data, "usage": None} | more))

    yield answer("in order", all_three)
    yield answer("in another order", all_three[::-1])
    yield answer("without indexes", [{"embedding": vector} for vector in VECTORS])
    yield answer("all with the index 0", [each | {"index": 0} for each in all_three])
    yield answer("all with the index 7", [each | {"index": 7} for each in all_three])
    yield answer("with indexes that are null", [each | {"index": None} for each in all_three])
    yield answer("with indexes that are texts", [each | {"index": str(each["index"])} for each in all_three[::-1]])
    yield answer(
        "with indexes that are fractions", [each | {"index": float(each["index"])} for each in all_three[::-1]]
    )
    yield answer("counted from one", [each | {"index": each["index"] + 1} for each in all_three[::-1]])
    yield answer("with the index 0 left out", [{"embedding": VECTORS[0]}, *all_three[1:]])
    yield answer("with the index 0 left out, in another order", [*all_three[:0:-1], {"embedding": VECTORS[0]}])
    yield answer("vectors within vectors", [entry(at, [VECTORS[at]]) for at in range(3)])
    yield answer("as base64", [entry(at, packed(VECTORS[at])) for at in range(3)])
    yield answer("as base64 without padding", [entry(at, packed(VECTORS[at]).rstrip("=")) for at in range(3)])
    yield answer("numbers as texts", [entry(at, [str(number) for number in VECTORS[at]]) for at in range(3)])
    yield answer("vectors alone", VECTORS)
    yield answer("with usage", all_three, usage={"prompt_tokens": 3, "total_tokens": 3})
    yield Variation("a list of entries", json.dumps(all_three))
    yield Variation("a list of vectors", json.dumps(VECTORS))
    yield Variation("embeddings of Ollama", json.dumps({"model": "m", "embeddings": VECTORS}))
    yield Variation("data alone", json.dumps({"data": all_three}))
    yield Variation("behind a mark", "\ufeff" + json.dumps({"data": all_three}))
    yield Variation("over several lines", json.dumps({"data": all_three}, indent=1))
    yield Variation("called a text", json.dumps({"data": all_three}), kind="text/plain")


def wrong() -> Iterator[Variation]:
    all_three = [entry(at) for at in range(3)]

    def answer(name: str, data: Any, says: str = "") -> Variation:
        return Variation(name, json.dumps({"data": data}), error="bad_answer", says=says)

    yield answer("one vector too few", all_three[:2], "2 vectors for 3 texts")
    yield answer("one vector too many", [*all_three, entry(0)], "4 vectors for 3 texts")
    yield answer("no vectors", [], "0 vectors for 3 texts")
    yield answer("no list", None, "not a list")
    yield answer("one text twice", [entry(0), entry(0), entry(1)], "not one for each")
    yield answer("counted from two", [each | {"index": each["index"] + 2} for each in all_three], "not one for each")
    yield answer("one index missing", [entry(0), entry(1), {"embedding": VECTORS[2]}], "not one for each")
    yield answer("a vector that is null", [entry(0), entry(1), {"index": 2, "embedding": None}])
    yield answer("a vector that is missing", [entry(0), entry(1), {"index": 2}])
    yield answer("a vector for each token", [entry(at, [VECTORS[at], VECTORS[at]]) for at in range(3)])
    yield answer("doubles as base64", [entry(at, packed(VECTORS[at], "<f8")) for at in range(3)])
    yield answer("vectors of other dimensions", [entry(at, [1.0, 2.0, 3.0]) for at in range(3)])
    yield answer("a vector of zeros", [entry(0), entry(1), entry(2, [0.0, 0.0])])
    yield Variation("a number that is none", '{"data": [[NaN, 1], [1, 1], [1, 1]]}', error="bad_answer")
    yield Variation("nothing", "", error="bad_answer", says="empty")
    yield Variation("half an answer", '{"data": [{"ind', error="bad_answer", says="not JSON")


def errors() -> Iterator[Variation]:
    page = "<!doctype html><html><body>Sign in</body></html>"
    api = "does not speak OpenAI's API"
    yield Variation("a web page", page, "provider_incompatible", api, kind="text/html")
    yield Variation("an answer of another API", '{"result": 3}', "provider_incompatible", api)
    yield Variation("404 of a path", "404 page not found", "provider_incompatible", api, status=404)
    yield Variation("a redirect", "", "provider_incompatible", api, status=302)
    yield Variation("an error with the status 200", '{"error": "overloaded"}', "bad_answer")
    yield Variation("an error of 429 with the status 200", '{"error": {"code": 429, "message": "x"}}', "provider_429")
    words = '{"error": {"message": "Rate limit: Request too large, invalid API key"}}'
    for status, error in {
        400: "text_refused",
        401: "provider_auth",
        404: "provider_4xx",
        413: "text_refused",
        429: "provider_429",
        500: "provider_5xx",
        503: "provider_5xx",
        529: "provider_5xx",
    }.items():
        yield Variation(f"{status} with words of other errors", words, error, status=status)


def all_variations() -> list[Variation]:
    return [*right(), *wrong(), *errors()]
