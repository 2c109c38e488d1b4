from kb_shared.concurrency.resting import LONGEST_REST_S, rest_s


def test_who_looks_for_work_rests_longer_where_looking_takes_long() -> None:
    assert rest_s(0.05, looked_for_s=0.001) == 0.05
    assert rest_s(0.05, looked_for_s=0.2) == 1.0
    assert rest_s(0.05, looked_for_s=60) == LONGEST_REST_S
    assert rest_s(5.0, looked_for_s=60) == 5.0
