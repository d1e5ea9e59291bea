"""Histograms as blobs: exact, small, and harmless when a file is damaged or hostile."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.errors import RunError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.faults import fault_in
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.histograms.layout import N_BINS
from tracker_adapters.native.extension import kernels, why_not
from tracker_adapters.store.segments import histogram_codec
from tracker_adapters.store.segments.histogram_codec import decode, encode


@pytest.fixture(scope="module", params=[pytest.param("NumPy", marks=pytest.mark.slow), "compiled"], autouse=True)
def way(request):
    """Each test holds for NumPy and for compiled code."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "NumPy":
            patch.setattr(histogram_codec, "kernels", lambda: None)
        elif kernels() is None:
            pytest.skip(why_not())
        yield


counts = st.integers(0, 2**40) | st.sampled_from([2**62, 63, 64, 8191, 8192])


@st.composite
def histograms(draw):
    bins = sorted(draw(st.sets(st.integers(0, N_BINS - 1), max_size=30)))
    sizes = [draw(st.integers(1, 2**40)) if draw(st.booleans()) else draw(st.integers(1, 200)) for _ in bins]
    beside = [draw(counts) // 16 for _ in range(5)]
    lost = [draw(st.integers(0, 300)) for _ in range(3)]
    low, high, mean, m2 = (draw(st.floats()) for _ in range(4))
    return Histogram(
        name="h", step=0, time_ns=0, bins=np.array(bins, np.uint16), counts=np.array(sizes, np.int64),
        count=sum(sizes) + sum(beside) + sum(lost), nan=lost[0], pos_inf=lost[1], neg_inf=lost[2], zero=beside[0],
        pos_overflow=beside[1], neg_overflow=beside[2], pos_underflow=beside[3], neg_underflow=beside[4],
        min=low, max=high, mean=mean, m2=m2,
    )  # fmt: skip


def of_values(*arrays):
    return HistogramColumns.of([Histogram.from_values("h", array, step=0, time_ns=0) for array in arrays])


@settings(deadline=None)
@given(st.lists(histograms(), max_size=6))
def test_what_is_decoded_is_what_was_encoded(given_histograms):
    decoded = decode(encode(HistogramColumns.of(given_histograms)))
    assert fault_in(decoded) is None
    back = [decoded.histogram(row, "h", step=0, time_ns=0) for row in range(len(decoded))]
    assert back == given_histograms


@settings(deadline=None)
@given(st.lists(histograms(), max_size=6))
def test_compiled_blobs_are_those_of_numpy(given_histograms):
    columns = HistogramColumns.of(given_histograms)
    blobs = encode(columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histogram_codec, "kernels", lambda: None)
        assert encode(columns) == blobs


def test_the_largest_count_of_64_bits_is_kept():
    most = 2**63 - 1
    one = Histogram(name="h", step=0, bins=np.array([4095], np.uint16), counts=np.array([most]), count=most)
    decoded = decode(encode(HistogramColumns.of([one])))
    assert (decoded.bins.tolist(), decoded.counts.tolist(), decoded.tallies[0, 0]) == ([4095], [most], most)


def test_a_blob_stands_for_itself():
    """Each can be read alone, in any order."""
    columns = of_values([], [0.0], np.arange(-50, 50), [np.nan, 1e300])
    blobs = encode(columns)
    assert encode(decode(blobs[::-1])) == blobs[::-1]
    assert [encode(decode([blob])) for blob in blobs] == [[blob] for blob in blobs]


def test_the_layout_is_the_documented_one():
    columns = of_values(np.array([1.0, 1.0, 1.25, -1.0], np.float32))
    # 1.0 is bin 1016 and 1.25 bin 1018; -1.0 is 2048 above 1.0. Gaps: 1016, 1 and 2045 bins.
    varints = [4, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0xEE, 0x0F, 1, 0, 1, 0xF8, 0x1F]
    assert encode(columns) == [struct.pack("<4d", -1.0, 1.25, 0.5625, 3.296875) + bytes(varints)]


@pytest.mark.parametrize(("elements", "limit"), [(65_536, 480), (1_000_000, 600), (50_000_000, 800)])
def test_normal_gradients_are_small(elements, limit):
    sample = Histogram.from_values("h", np.random.default_rng(0).normal(0, 1e-3, 1_000_000), step=0)
    grown = sample.counts * elements // 1_000_000 + 1
    columns = HistogramColumns.of([Histogram(name="h", step=0, bins=sample.bins, counts=grown, count=int(grown.sum()))])
    assert sample.bins.size > 250
    assert len(encode(columns)[0]) < limit


@settings(deadline=None)
@given(st.data())
def test_a_damaged_blob_is_an_error_or_another_histogram(data):
    blob = bytearray(encode(of_values(np.linspace(-1, 1, 99)))[0])
    for _ in range(data.draw(st.integers(1, 5))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    del blob[data.draw(st.integers(0, len(blob))) :]
    try:
        assert fault_in(decode([bytes(blob)])) is None
    except RunError as error:
        assert "damaged" in str(error)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=80), min_size=1, max_size=4))
def test_any_bytes_are_an_error_or_histograms(blobs):
    try:
        assert fault_in(decode(blobs)) is None
    except RunError as error:
        assert "damaged" in str(error)


@pytest.mark.parametrize("blob", [None, "text", 3, b""])
def test_what_is_no_blob_is_an_error(blob):
    with pytest.raises(RunError, match="damaged"):
        decode([blob])  # type: ignore[list-item]
