"""A switch of the process with several holders: their wishes together, and in the end what was there before."""

from hypothesis import given
from hypothesis import strategies as st

from stability.debugging.process_setting import ProcessSetting


@given(
    wishes=st.dictionaries(st.integers(0, 5), st.floats(0.1, 1.0), min_size=1),
    data=st.data(),
)
def test_the_smallest_wish_holds_until_all_have_let_go_in_any_order(wishes, data):
    switch = [1.0]
    setting = ProcessSetting(lambda: switch[0], lambda value: switch.__setitem__(0, value), min)
    for holder, value in wishes.items():
        setting.hold(holder, value)
    assert switch == [min(wishes.values())]

    left = dict(wishes)
    for holder in data.draw(st.permutations(list(wishes))):
        del left[holder]
        setting.release(holder)
        setting.release(holder)
        assert switch == [min(left.values(), default=1.0)]


def test_what_was_there_is_looked_at_anew_after_the_last_one():
    switch = [1.0]
    setting = ProcessSetting(lambda: switch[0], lambda value: switch.__setitem__(0, value), min)
    setting.hold("first", 0.5)
    setting.release("first")
    switch[0] = 0.8
    setting.hold("second", 0.5)
    setting.release("second")

    assert switch == [0.8]
