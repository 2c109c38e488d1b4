import logging

from kb_shared.observability.log_limit import LogLimit, RepetitionFilter


def test_the_same_cause_is_written_once_in_an_interval_and_then_with_how_many_were_left_out() -> None:
    limit = LogLimit(interval_s=0.0)
    assert [limit.admit("a") for _ in range(2)] == [0, 0]
    limit = LogLimit()
    assert [limit.admit(cause) for cause in ("a", "a", "a", "b")] == [0, None, None, 0]
    limit._written_at["a"] -= 61
    assert limit.admit("a") == 2


def test_lines_of_a_library_made_of_one_template_are_written_once_and_others_always() -> None:
    repetitions = RepetitionFilter("aiokafka")

    def written(name: str, topic: str) -> bool:
        record = logging.LogRecord(name, logging.ERROR, "", 0, "Topic %s not found", (topic,), None)
        return bool(repetitions.filter(record))

    assert [written("aiokafka.cluster", topic) for topic in ("a", "a", "b")] == [True, False, False]
    assert [written("uvicorn.error", "a") for _ in range(2)] == [True, True]
