"""The same question in two ways: to the service over HTTP, and as the raw aggregates that it sends at least."""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp

from kb_search.retrieval.query import SearchQuery
from kb_shared.mongo import index_queries
from kb_shared.mongo.vector import Vector
from kb_shared.mongo.vectors import Chunks
from kb_shared.text.text_normalization import CURRENT

TOP_K = 10
DEPTH = 100
"""Hits that the service asks each index for, too, so that fusion knows the ranks of the first pages."""


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    text: str
    vector: Vector


@dataclass(frozen=True, slots=True)
class SearchService:
    """By a client that takes a fifth of the CPU of httpx: it shares the cores with what is measured."""

    http: aiohttp.ClientSession
    url: str
    mode: str

    async def ask(self, question: SearchQuestion) -> None:
        body = {"query": question.text, "mode": self.mode, "top_k": TOP_K}
        async with self.http.post(self.url, json=body) as answer:
            answer.raise_for_status()
            results = (await answer.json())["results"]
        assert results, "every question is made of words that a chunk holds"


@dataclass(frozen=True, slots=True)
class RawAggregates:
    """The indexes only: no embedding, no fusion, no look at what the hits say."""

    chunks: Chunks
    mode: str
    exact: bool

    async def ask(self, question: SearchQuestion) -> None:
        legs: list[Any] = []
        if self.mode != "text":
            legs.append(
                index_queries.query_vector_index(
                    self.chunks, question.vector, limit=DEPTH, query_filter={}, exact=self.exact
                )
            )
        if self.mode != "vector":
            words = SearchQuery(question.text).words_for_index(CURRENT)
            legs.append(index_queries.query_text_index(self.chunks, words, limit=DEPTH, filters=[]))
        assert all(await asyncio.gather(*legs))
