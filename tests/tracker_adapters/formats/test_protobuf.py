"""Numbers in protobuf's variable length read back."""

from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.formats.protobuf import varint


@given(st.integers(0, 2**64 - 1))
def test_a_varint_reads_back(number):
    encoded = varint(number)
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(encoded)) == number
    assert [byte >> 7 for byte in encoded] == [1] * (len(encoded) - 1) + [0]
