"""What a driver learns of a replica set through its search nodes."""

from kb_local.search_node.hello import rewrite_hello

SIBLINGS = {"m2:27017": "127.0.0.1:2", "m3:27017": "127.0.0.1:3"}


def test_hello_names_the_node_wherever_it_names_a_member() -> None:
    reply = {
        "me": "m1:27017",
        "primary": "m2:27017",
        "hosts": ["m1:27017", "m2:27017"],
        "passives": ["m3:27017"],
        "setName": "rs0",
    }
    assert rewrite_hello(reply, listen="127.0.0.1:1", siblings=SIBLINGS) == {
        "me": "127.0.0.1:1",
        "primary": "127.0.0.1:2",
        "hosts": ["127.0.0.1:1", "127.0.0.1:2"],
        "passives": ["127.0.0.1:3"],
        "setName": "rs0",
    }


def test_a_member_without_a_node_keeps_its_name() -> None:
    reply = {"me": "m1:27017", "hosts": ["m1:27017", "m4:27017"], "arbiters": ["m5:27017"]}
    rewritten = rewrite_hello(reply, listen="127.0.0.1:1", siblings=SIBLINGS)
    assert rewritten == {"me": "127.0.0.1:1", "hosts": ["127.0.0.1:1", "m4:27017"], "arbiters": ["m5:27017"]}


def test_no_compression_is_offered_also_by_one_that_is_no_member() -> None:
    assert rewrite_hello({"ok": 1, "compression": ["zlib"]}, listen="127.0.0.1:1", siblings={}) == {"ok": 1}
