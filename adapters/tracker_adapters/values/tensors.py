"""The plain values of any torch tensor. torch is not imported: what looks like a tensor is taken for one."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import ArtifactError


def is_tensor(value: object) -> bool:
    """Whether ``value`` looks like a torch tensor."""
    return hasattr(value, "detach") and hasattr(value, "is_meta")


def is_device_tensor(value: object) -> bool:
    """Whether ``value`` is a tensor whose reading would synchronise with a device such as CUDA."""
    return is_tensor(value) and not value.is_meta and value.device.type != "cpu"  # type: ignore[attr-defined]


def is_sharded(tensor: Any) -> bool:
    """Whether a tensor is a DTensor, of which each rank holds a shard or a copy."""
    return hasattr(tensor, "to_local")


def local_part(tensor: Any) -> Any:
    """Returns what of a DTensor lies on this rank, in the same memory; any other tensor as it is."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def plain_tensor(what: str, tensor: Any) -> Any:
    """Returns the values as a dense tensor without gradient, which may share memory with ``tensor``.

    They are the local part of a DTensor, and the real values of a quantised tensor.

    Args:
        what: How the message names the tensor.
        tensor: Of any dtype, complex ones too.

    Raises:
        ArtifactError: For meta, sparse and nested tensors.
    """
    values = local_part(tensor.detach())
    check_dense(what, values)
    return (values.dequantize() if values.is_quantized else values).resolve_conj().resolve_neg()


def check_dense(what: str, tensor: Any) -> None:
    """Raises ArtifactError for tensors that hold no plain values: meta, sparse, nested."""
    if tensor.is_meta:
        raise ArtifactError(
            f"{what}: got a meta tensor of shape {tuple(tensor.shape)}, which has no values; "
            "expected a tensor with data"
        )
    if getattr(tensor, "is_nested", False) or str(tensor.layout) != "torch.strided":
        layout = "nested" if getattr(tensor, "is_nested", False) else str(tensor.layout)
        raise ArtifactError(
            f"{what}: got a {tensor.dtype} tensor with layout {layout}; expected a dense one, "
            "such as tensor.coalesce().values() or tensor.to_dense()"
        )


def check_readable(what: str, tensor: Any) -> None:
    """Raises ArtifactError for tensors that hold no plain real values: meta, sparse, nested, complex."""
    check_dense(what, tensor)
    if tensor.is_complex():
        raise ArtifactError(
            f"{what}: got a complex tensor ({tensor.dtype}); expected real values, "
            "such as its modulus tensor.abs() or its parts"
        )


def host_dtype(tensor: Any) -> npt.DTypeLike:
    """Returns the dtype that ``as_array`` will give a device tensor's values."""
    if tensor.is_floating_point():
        return np.float32
    return str(tensor.dtype).removeprefix("torch.")
