from kb_shared.concurrency.poll_pause import LONGEST_PAUSE_S, poll_pause_s


def test_a_poll_that_takes_long_is_followed_by_a_longer_pause() -> None:
    assert poll_pause_s(0.05, poll_took_s=0.001) == 0.05
    assert poll_pause_s(0.05, poll_took_s=0.2) == 1.0
    assert poll_pause_s(0.05, poll_took_s=60) == LONGEST_PAUSE_S
    assert poll_pause_s(5.0, poll_took_s=60) == 5.0
