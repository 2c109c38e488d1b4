import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_local.search_node.frames import FrameAction, FrameSplitter
from kb_local.search_node.wire import MalformedFrame

HELD = 1


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<iiii", 16 + len(payload), 0, 0, kind) + payload


def kind_of(data: bytes, at: int) -> FrameAction:
    return FrameAction.HOLD if struct.unpack_from("<i", data, at + 12)[0] == HELD else FrameAction.PASS


frames = st.lists(st.tuples(st.sampled_from([0, HELD]), st.binary(max_size=40)), max_size=8)


@given(frames, st.data())
def test_held_frames_come_whole_and_everything_keeps_its_order(
    specifications: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(frame(kind, payload) for kind, payload in specifications)
    out: list[bytes] = []
    held: list[bytes] = []

    def keep_frame(whole: bytes) -> None:
        held.append(whole)
        out.append(whole)

    splitter = FrameSplitter(choose_action=kind_of, forward=out.append, handle_frame=keep_frame)
    rest = stream
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        splitter.feed(rest[:size])
        rest = rest[size:]
    assert b"".join(out) == stream
    assert held == [frame(kind, payload) for kind, payload in specifications if kind == HELD]


def test_nothing_passes_a_pause_until_it_ends() -> None:
    out: list[bytes] = []

    def keep_frame(whole: bytes) -> None:
        out.append(whole)
        splitter.pause()

    splitter = FrameSplitter(choose_action=kind_of, forward=out.append, handle_frame=keep_frame)
    splitter.feed(frame(HELD, b"1") + frame(0, b"2"))
    splitter.feed(frame(0, b"3"))
    assert out == [frame(HELD, b"1")]
    splitter.resume()
    assert b"".join(out) == frame(HELD, b"1") + frame(0, b"2") + frame(0, b"3")


def test_a_passing_frame_is_not_kept_until_it_is_complete() -> None:
    out: list[bytes] = []
    splitter = FrameSplitter(choose_action=kind_of, forward=out.append, handle_frame=out.append)
    splitter.feed(frame(0, b"x" * 100)[:50])
    assert b"".join(out) == frame(0, b"x" * 100)[:50]


@pytest.mark.parametrize("length", [-1, 0, 15, 2**31 - 1])
def test_an_impossible_length_is_no_message(length: int) -> None:
    splitter = FrameSplitter(choose_action=kind_of, forward=lambda _: None, handle_frame=lambda _: None)
    with pytest.raises(MalformedFrame):
        splitter.feed(struct.pack("<iiii", length, 0, 0, 0))
