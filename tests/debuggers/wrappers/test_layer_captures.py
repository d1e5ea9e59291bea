"""Captures are kept call by call until they are taken."""

import threading

from waiting import in_threads

from debuggers.wrappers.layer_captures import MAX_CALLS, Captures, LayerCaptures, pictured

DEADLINE_S = 30


def test_calls_are_named_by_their_layer_and_number():
    captures = LayerCaptures()
    for value, layer in enumerate(["conv", "head", "conv", "conv"]):
        captures.keep(captures.count_call(layer), layer, value)
    assert captures.take() == {"conv": ("conv", 0), "head": ("head", 1), "conv:1": ("conv", 2), "conv:2": ("conv", 3)}


def test_taking_starts_anew():
    captures = LayerCaptures()
    captures.keep(captures.count_call("conv"), "conv", 1)
    captures.take()
    assert captures.take() == {}
    assert captures.count_call("conv") == "conv"


def test_calls_beyond_the_limit_are_only_counted():
    captures = LayerCaptures()
    names = []
    for _ in range(MAX_CALLS + 3):
        room = captures.has_room("cell")
        names.append(captures.count_call("cell"))
        assert room == (names[-1] is not None)
    assert names[0] == "cell"
    assert names[-4:] == ["cell:15", None, None, None]
    assert captures.count_call("other") == "other"
    captures.take()
    assert captures.count_call("cell") == "cell"


def test_threads_get_different_names():
    captures, start, names = LayerCaptures(), threading.Barrier(8), []

    def call(_):
        start.wait(DEADLINE_S)
        names.extend(captures.count_call("conv") for _ in range(2))

    in_threads(call, range(8))
    assert sorted(names) == sorted(["conv", *(f"conv:{call}" for call in range(1, 16))])


def test_pictures_are_made_of_a_slot_or_of_each_of_its_captures():
    assert list(pictured("maps", {"map": 1})) == [("maps", {"map": 1})]
    slot = Captures({"conv": {"map": 1}, "conv:1": {"error": "gone"}, "head": {"map": 2}})
    assert list(pictured("maps", slot)) == [("maps/conv", {"map": 1}), ("maps/head", {"map": 2})]


def test_only_a_text_called_error_is_an_error():
    assert list(pictured("maps", {"error": "gone"})) == []
    for slot in ({"error": 0.5}, {"error": "large", "map": 1}, {}, None):
        assert list(pictured("maps", slot)) == [("maps", slot)]
