"""Turns what callers pass (numbers, lists, NumPy arrays, host tensors) into NumPy, without importing torch."""

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.narrow_floats import is_narrow_float
from tracker_adapters.values.tensors import check_readable, is_tensor, plain_tensor


def as_array(what: str, value: Any) -> npt.NDArray[Any]:
    """Returns ``value`` as a real NumPy array that may share memory with it.

    bfloat16 and float8 come back as float32, which holds each of their values exactly.

    Args:
        what: How the message names the artifact, for example ``histogram 'grad/fc1'``.
        value: A number, sequence, NumPy array or host tensor of any shape. What a masked array masks becomes NaN.

    Raises:
        ArtifactError: For meta, sparse, nested or complex tensors, tensors without data (as inside torch.compile
            or torch.func), object arrays, text and ragged lists.
    """
    if is_tensor(value):
        check_readable(what, value)
    try:
        array = _tensor_to_numpy(value) if is_tensor(value) else np.asarray(value)
    except Exception as error:  # whatever an array-like object of the user's raises
        raise ArtifactError(f"{what}: {_describe(value)} is not an array of numbers ({error})") from error
    if is_masked_array(value):
        array = _without_mask(what, value)
    if is_narrow_float(array.dtype):
        return array.astype(np.float32)
    if array.dtype.kind == "c":
        raise ArtifactError(
            f"{what}: got complex values ({array.dtype}); expected real ones, such as numpy.abs(values)"
        )
    if array.dtype.kind not in "biuf":
        raise ArtifactError(
            f"{what}: got {_describe(value)} of dtype {array.dtype}; expected bool, integer or floating-point values"
        )
    return array


def is_masked_array(value: object) -> bool:
    """Whether a value is a masked array, without the import of NumPy's that makes them, which takes milliseconds."""
    return "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray)


def _without_mask(what: str, value: Any) -> npt.NDArray[Any]:
    """The values of a masked array, NaN where it is masked."""
    if not np.ma.is_masked(value):
        return np.asarray(value.data)
    if value.dtype.kind != "f":
        raise ArtifactError(
            f"{what}: got a masked array of dtype {value.dtype}, which has no NaN for what is masked; expected plain "
            "values, such as values.compressed() or values.astype(float)"
        )
    return np.asarray(value.filled(np.nan))


def as_float(what: str, value: Any) -> float:
    """Returns a number, NumPy scalar, 0-d array or 0-d host tensor as a float; NaN and infinity pass.

    Integers beyond 2**53 are rounded to the nearest float64.

    Raises:
        ArtifactError: For anything else, arrays with a dimension included.
    """
    if isinstance(value, (float, int)):
        try:
            return float(value)
        except OverflowError as error:
            raise ArtifactError(f"{what}: {_describe(value)} is beyond the range of float64") from error
    if value is None or isinstance(value, (str, bytes)):
        raise ArtifactError(f"{what}: got {_describe(value)}; expected a number or a 0-d tensor or array")
    if is_masked_array(value) and value is np.ma.masked:
        return math.nan
    array = as_array(what, value)
    if array.ndim != 0:
        hint = f"; value.reshape(()) would do, shape {array.shape} has one element" if array.size == 1 else ""
        raise ArtifactError(f"{what}: got shape {array.shape}; expected a number or a 0-d tensor or array{hint}")
    return float(array)


def _tensor_to_numpy(tensor: Any) -> npt.NDArray[Any]:
    values = plain_tensor("tensor", tensor)
    if str(values.dtype).startswith(("torch.bfloat16", "torch.float8")):
        values = values.float()
    array: npt.NDArray[Any] = values.cpu().numpy()
    return array


def _describe(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
