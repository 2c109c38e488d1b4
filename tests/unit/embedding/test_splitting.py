import asyncio
import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.embedding.splitting import SplitAnswers, ask_in_parts
from kb_shared.errors import BatchRefused, ProviderUnavailable


class RefusingProvider:
    """Refuses every batch that holds one of `refused`, or more than `most` characters."""

    def __init__(self, *, refused: set[str] | None = None, most: float = math.inf) -> None:
        self.refused = refused or set()
        self.most = most
        self.calls: list[set[str]] = []

    async def ask(self, batch: Mapping[str, str]) -> dict[str, int]:
        self.calls.append(set(batch))
        if self.refused & set(batch) or sum(map(len, batch.values())) > self.most:
            raise BatchRefused("no", error_type="text_refused")
        return {key: len(text) for key, text in batch.items()}

    def asked(self, batch: Mapping[str, str]) -> SplitAnswers[str, int]:
        return asyncio.run(ask_in_parts(batch, self.ask))


batches = st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=30), max_size=100)


@given(batch=batches, data=st.data())
def test_exactly_the_guilty_texts_are_found_in_few_calls_and_all_others_are_answered(
    batch: dict[str, str], data: st.DataObject
) -> None:
    guilty = data.draw(st.sets(st.sampled_from(sorted(batch)), max_size=5)) if batch else set()
    provider = RefusingProvider(refused=guilty)

    found = provider.asked(batch)

    assert set(found.refused) == guilty
    assert found.answered == {key: len(text) for key, text in batch.items() if key not in guilty}
    assert len(provider.calls) <= 1 + 2 * len(guilty) * math.ceil(math.log2(max(2, len(batch))))


@given(batch=batches, most=st.integers(0, 100))
def test_a_batch_that_is_only_too_large_is_answered_in_parts(batch: dict[str, str], most: int) -> None:
    found = RefusingProvider(most=most).asked(batch)

    assert set(found.refused) == {key for key, text in batch.items() if len(text) > most}
    assert set(found.answered) | set(found.refused) == set(batch)


@given(batch=batches, guilty=st.sets(st.text(min_size=1, max_size=5)))
def test_no_text_is_paid_for_twice(batch: dict[str, str], guilty: set[str]) -> None:
    provider = RefusingProvider(refused=guilty)
    provider.asked(batch)

    answered = [call for call in provider.calls if not call & guilty]
    assert sum(map(len, answered)) == len(set().union(*answered))


def test_an_error_other_than_a_refusal_ends_the_splitting() -> None:
    async def ask(_batch: Mapping[str, str]) -> dict[str, int]:
        raise ProviderUnavailable("down", error_type="provider_5xx")

    with pytest.raises(ProviderUnavailable):
        asyncio.run(ask_in_parts({"a": "x", "b": "y"}, ask))
