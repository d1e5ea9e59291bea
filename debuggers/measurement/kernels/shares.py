"""The compiled code that cuts tensors into shares, has them measured in one thread or several, and joins what came out.

numba's cache notices changes of this file only: who changes another file of compiled code empties the ``__pycache__``
beside it.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from tracker_adapters.compilation import OPTIONS

from debuggers.measurement.kernels.blocks import NAN, NEG_INF, POS_INF
from debuggers.measurement.kernels.joining import join_mean_and_m2
from debuggers.measurement.kernels.memory_access import array_at, run_in_team, take_ticket
from debuggers.measurement.kernels.rows import ADDRESS, BEFORE, BINS, BLOCK, IS_DOUBLE, LENGTH, ROW, measure_rows

MIN_SHARE = 2 * BLOCK
"""Shares may not be shorter: they are cut between blocks."""
_SNAP = 8  # a share may be an eighth longer or shorter, so that no tensor is cut
_FIRST, _ROOM, _USED = range(3)  # columns of shares: first piece, room for bins, bins that are used or -1
_TICKET, _N_SHARES, _SHARES, _PIECES, _N_PARTS, _TALLIES, _MOMENTS, _SIGNED, _L1, _ENDS, _BINS, _COUNTS = range(12)
_MIN, _MAX, _MEAN, _M2 = range(4)
_COUNT = 0
_compile = numba.njit(**OPTIONS)
_Array = npt.NDArray[Any]


def work(address: int) -> None:
    """Measures shares of a job until none is left; several threads may do so at once.

    Args:
        address: Of the job, int64 (12,): the next share, then numbers and addresses of arrays, which ``measure`` keeps.
    """
    integers, floats, shorts = np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint16)
    job = array_at(address, integers, (12,))
    shares = array_at(job[_SHARES], integers, (job[_N_SHARES] + 1, 3))
    pieces = array_at(job[_PIECES], integers, (shares[-1, _FIRST], 5))
    n = job[_N_PARTS]
    rows = (
        array_at(job[_TALLIES], integers, (n, 9)),
        array_at(job[_MOMENTS], floats, (n, 4)),
        array_at(job[_SIGNED], integers, (2, n)),
        array_at(job[_L1], floats, (n,)),
        array_at(job[_ENDS], integers, (n,)),
    )
    bins = array_at(job[_BINS], shorts, (shares[-1, _ROOM],))
    counts = array_at(job[_COUNTS], integers, (shares[-1, _ROOM],))
    while True:
        turn = take_ticket(address + 8 * _TICKET)
        if turn >= job[_N_SHARES]:
            return
        share, following = shares[turn], shares[turn + 1]
        room = slice(share[_ROOM], following[_ROOM])
        share[_USED] = measure_rows(pieces[share[_FIRST] : following[_FIRST]], rows, bins[room], counts[room])


_work = _compile(work)


def measure(segments: _Array, number: int, team: int, function: int, threads: int) -> Any:
    """Measures tensors.

    Args:
        segments: int64 (k, 5), k > 0, as in ``rows``.
        number: How many shares to cut them into, at most; each of at least ``MIN_SHARE`` elements on average.
        team: Address of ``GOMP_parallel``.
        function: Address of ``work`` for the team.
        threads: Size of the team.

    Returns:
        tallies, moments, signed, l1, ends, bins, counts; see ``rows.measure_rows``.
    """
    shares = np.empty((number + 1, 3), np.int64)
    pieces = np.empty((len(segments) + number, 5), np.int64)
    tensors = np.empty(len(segments) + number, np.int64)
    made, n = _cut(segments, number, shares, pieces, tensors)
    tallies, moments = np.empty((n, 9), np.int64), np.empty((n, 4))
    signed, l1, ends = np.empty((2, n), np.int64), np.empty(n), np.empty(n, np.int64)
    bins, counts = np.empty(shares[made, _ROOM], np.uint16), np.empty(shares[made, _ROOM], np.int64)
    job = np.empty(12, np.int64)
    job[_TICKET], job[_N_SHARES], job[_N_PARTS] = 0, made, n
    job[_SHARES], job[_PIECES], job[_BINS] = shares.ctypes.data, pieces.ctypes.data, bins.ctypes.data
    job[_TALLIES], job[_MOMENTS], job[_COUNTS] = tallies.ctypes.data, moments.ctypes.data, counts.ctypes.data
    job[_SIGNED], job[_L1], job[_ENDS] = signed.ctypes.data, l1.ctypes.data, ends.ctypes.data
    if made == 1:
        _work(job.ctypes.data)
    else:
        run_in_team(team, function, job.ctypes.data, threads)
    # numba frees an array after its last use: all that the job points to is used below.
    if job[_TICKET] < made or shares[:made, _USED].min() < 0:
        raise MemoryError("there was no memory for the counters of the measuring kernel")
    parts = tallies, moments, signed, l1, ends
    return _join(segments[-1, ROW] + 1, shares[: made + 1], pieces, tensors, parts, bins, counts)


@_compile
def _cut(segments: _Array, number: int, shares: _Array, pieces: _Array, tensors: _Array) -> Any:
    """Cuts segments into at most ``number`` shares of about the same length.

    Args:
        segments: (k, 5).
        number: How many shares are wanted.
        shares: (number + 1, 3); takes the shares, and where a further one would begin.
        pieces: (k + number, 5); takes the segments, whose rows are parts of tensors here.
        tensors: (k + number,); takes the tensor of each part.

    Returns:
        The numbers of shares and of parts.
    """
    total = segments[:, LENGTH].sum()
    slack = total // number // _SNAP
    share = piece = position = room = 0
    part = -1
    shares[0] = (0, 0, -1)
    for index in range(segments.shape[0]):
        row, address, length, is_double, before = segments[index]
        begin = 0
        while True:
            goal = (share + 1) * total // number
            size = length - begin
            is_full = share < number - 1 and position + size > goal + slack
            if is_full:
                size = (goal - position) // BLOCK * BLOCK if goal - position > slack else 0
            if size or not is_full:
                if piece == shares[share, _FIRST] or tensors[part] != row:
                    part += 1
                    tensors[part] = row
                    room += 1
                offset = begin * (8 if is_double else 4)
                pieces[piece, ROW], pieces[piece, LENGTH], pieces[piece, IS_DOUBLE] = part, size, is_double
                pieces[piece, ADDRESS], pieces[piece, BEFORE] = address + offset, before + offset if before else 0
                piece += 1
                begin += size
                position += size
                room += min(size, BINS)
            if not is_full:
                break
            share += 1
            shares[share] = (piece, room, -1)
    shares[share + 1] = (piece, room, 0)
    return share + 1, part + 1


@_compile
def _join(  # noqa: PLR0917
    n: int, shares: _Array, pieces: _Array, tensors: _Array, parts: Any, part_bins: _Array, part_counts: _Array
) -> Any:
    """Merges the parts of each of n tensors."""
    part_tallies, part_moments, part_signed, part_l1, part_ends = parts
    tallies, moments = np.empty((n, 9), np.int64), np.empty((n, 4))
    signed, l1, ends = np.empty((2, n), np.int64), np.empty(n), np.empty(n, np.int64)
    used = shares[:-1, _USED].sum()
    bins, counts = np.empty(used, np.uint16), np.empty(used, np.int64)
    dense = np.zeros(BINS if len(part_l1) > n else 0, np.int64)
    row, end = -1, 0
    for share in range(shares.shape[0] - 1):
        first, following, room = shares[share, _FIRST], shares[share + 1, _FIRST], shares[share, _ROOM]
        if first == following:
            continue
        begin = room
        for part in range(pieces[first, ROW], pieces[following - 1, ROW] + 1):
            is_new = tensors[part] != row
            row = tensors[part]
            if is_new:
                start = end
                moments[row], tallies[row] = part_moments[part], part_tallies[part]
                signed[:, row], l1[row] = part_signed[:, part], part_l1[part]
            else:
                _merge_moments(moments[row], tallies[row], part_moments[part], part_tallies[part])
                tallies[row] += part_tallies[part]
                signed[:, row] += part_signed[:, part]
                l1[row] += part_l1[part]
            for place in range(begin, room + part_ends[part]):
                bins[end], counts[end] = part_bins[place], part_counts[place]
                end += 1
            if not is_new:
                end = _merge_bins(bins, counts, start, end, dense)
            ends[row] = end
            begin = room + part_ends[part]
    return tallies, moments, signed, l1, ends, bins[:end], counts[:end]


@_compile
def _merge_bins(bins: _Array, counts: _Array, start: int, stop: int, dense: _Array) -> int:
    """Puts the entries of two histograms, one after the other, into one; returns where it ends."""
    for place in range(start, stop):
        dense[bins[place]] += counts[place]
    if start < stop:
        lowest, highest = bins[start:stop].min(), bins[start:stop].max()
        stop = start
        for bin_index in range(lowest, highest + 1):
            if dense[bin_index]:
                bins[stop], counts[stop] = bin_index, dense[bin_index]
                dense[bin_index] = 0
                stop += 1
    return stop


@_compile
def _merge_moments(moments: _Array, tally: _Array, other: _Array, other_tally: _Array) -> None:
    """Adds the moments of other elements."""
    ours, theirs = _n_finite(tally), _n_finite(other_tally)
    if theirs == 0:
        return
    if ours == 0:
        moments[:] = other
        return
    moments[_MIN] = min(moments[_MIN], other[_MIN])
    moments[_MAX] = max(moments[_MAX], other[_MAX])
    moments[_MEAN], moments[_M2] = join_mean_and_m2(
        ours, moments[_MEAN], moments[_M2], theirs, other[_MEAN], other[_M2]
    )


@_compile
def _n_finite(tally: _Array) -> int:
    return int(tally[_COUNT] - tally[NAN] - tally[POS_INF] - tally[NEG_INF])
