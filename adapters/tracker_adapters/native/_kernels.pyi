"""The functions of module.c, module_samples.c and module_trees.c.

Arrays are contiguous, in the dtypes that are given; results are for ``numpy.frombuffer``. Other Python threads run
meanwhile, except in ``rows``. Arrays that do not fit together raise ``ValueError``.
"""

from typing import Any

import numpy.typing as npt

_Array = npt.NDArray[Any]

def measure(segments: _Array, number: int, team: int, threads: int) -> tuple[bytearray, ...]:
    """Measures tensors that lie in one or several segments of memory each.

    Args:
        segments: int64 (k, 5), k > 0, ordered by row: the tensor's row in the results, from 0 on without gaps; the
            address of contiguous elements, which the caller keeps alive; their number; a kind; the address of what is
            to be subtracted, or 0. The kind is 1 for float64 and 0 for float32; with 2 added the elements are measured
            both as they are and less what is to be subtracted, in one pass over the memory. The rows of these
            differences come after all others, in the order of their tensors. A row has fewer than 2**33 elements, all
            of one kind.
        number: How many shares to cut them into, at most. Moments depend on it in their last bits.
        team: Address of OpenMP's ``GOMP_parallel``, or 0 to measure in this thread alone.
        threads: Size of the team.

    Returns:
        tallies int64 (n, 9), moments float64 (n, 4), signs int64 (2, n): how many are negative, and positive; l1
        float64 (n,), ends int64 (n,), bins uint16, counts int64; see ``tracker_adapters.histograms.columns``.
    """

def cut(segments: _Array, number: int) -> tuple[bytes, bytes, bytes]:
    """Cuts segments as ``measure`` does.

    Returns:
        shares int64 (made + 1, 3): the first piece, and two more; pieces int64 (p, 5): segments whose rows are parts;
        tensors int64: the tensor of each part.
    """

def spread(
    address: int, size: int, is_double: bool, copy: int, team: int, threads: int
) -> tuple[float, float, float, float, float]:
    """Returns count, mean, m2, min and max of elements, which are copied to the address ``copy`` unless it is 0.

    The count is 0 where an element is not finite, or a sum of a block of them leaves its dtype.
    """

def samples(samples: _Array) -> bytearray:
    """Describes samples: some rows of a tensor, in row-major order.

    Args:
        samples: int64 (k, 4): the address of contiguous elements, which the caller keeps alive; 1 for float64 and 0 for
            float32; rows and columns, at least one of each.

    Returns:
        float64 (k, 4): the share of zeros, mean, standard deviation, and the mean of the columns' standard deviations,
        with the bits that NumPy's ``mean`` and ``std`` find of the elements as float64. NaN where one is not finite.
    """

def gather(tensors: _Array, shares: _Array) -> bytearray:
    """Gathers a few elements of each of many tensors.

    Args:
        tensors: int64 (k, 3): the address of contiguous elements, which the caller keeps alive; 1 for float64 and 0 for
            float32; their number.
        shares: float64 (s,), from 0 to below 1: an element's place is its share times the number of elements, less the
            fraction. Of a tensor with at most s elements all are taken.

    Returns:
        float64: the elements, tensor after tensor.
    """

def merge(
    order: _Array, starts: _Array, ends: _Array, bins: _Array, counts: _Array
) -> tuple[bytearray, bytearray, bytearray]:
    """Returns ends, bins and counts as ``tracker_adapters.histograms.merging.merge_bins`` does."""

def pack(tallies: _Array, moments: _Array, ends: _Array, bins: _Array, counts: _Array) -> list[bytes]:
    """Returns blobs as ``tracker_adapters.store.segments.histogram_codec.encode`` does."""

def join(n: float, mean: float, m2: float, other_n: float, other_mean: float, other_m2: float) -> tuple[float, float]:
    """Returns mean and m2 of two parts, the second of which is not empty."""

def instruction_sets() -> tuple[str, ...]:
    """Returns the names of those that this processor has, the narrowest first."""

def use(instruction_set: str) -> None:
    """Uses one of them from now on, in all threads; the results have the same bits with each."""

def rows(file: int, root: int, first: int, last: int) -> list[tuple[Any, ...]]:
    """Returns rows of a SQLite database that nobody writes, read from its file.

    Args:
        file: Descriptor of the file.
        root: The page at which the table begins.
        first: The lowest number of a row, int64.
        last: The highest one.

    Returns:
        For each row its number and its columns, as ``sqlite3`` returns them, but None in the column that stands for the
        number. Of a table without numbers of rows, the columns of all.

    Raises:
        ValueError: When the file holds anything that the database of a run does not.
    """

def columns(file: int, root: int, keys: int, wanted: bytes, any_first: bool, fields: bytes) -> bytearray:
    """Returns columns of an index, or of a table without numbers of rows, as ``rows`` does.

    Args:
        file: Descriptor of the file.
        root: The page at which the index begins.
        keys: How many columns order it, at most 4; they are integers.
        wanted: int64 (k,): what its first columns are to be.
        any_first: Whether the first column may be anything, and ``wanted`` begins with the second one.
        fields: int64 (f,): the columns. ``~number`` is one of float64, NaN for NULL, or else it is of integers.

    Returns:
        int64 (f, n), in the order of the index, with the bits of float64.
    """
