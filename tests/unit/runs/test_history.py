"""What a run of a thread is told of the runs before it."""

from typing import Any

from kb_search.runs.prepare_run import select_newest_messages
from kb_shared.chat.provider import estimate_message_tokens


def turn(number: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"question {number}"}, {"role": "assistant", "content": f"answer {number}"}]


def test_the_newest_turns_that_fit_are_included_whole_and_in_order() -> None:
    turns = [turn(number) for number in range(5)]
    one = estimate_message_tokens(turn(0))
    assert select_newest_messages(turns, max_tokens=5 * one) == [message for each in turns for message in each]
    assert select_newest_messages(turns, max_tokens=3 * one - 1) == [*turn(3), *turn(4)]
    assert select_newest_messages(turns, max_tokens=one - 1) == []
    assert select_newest_messages(
        [turn(0), [{"role": "user", "content": "x" * 1_000}], turn(2)], max_tokens=2 * one
    ) == turn(2)
