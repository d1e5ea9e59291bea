"""Which tensors can be read, and their values."""

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.tensors import plain_tensor

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_in_transform


def readable_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the values as ``plain_tensor`` does, if they can be read.

    Raises:
        ArtifactError: For meta, sparse and nested tensors; for subclasses that keep their values out of reach, such as
            FakeTensor; inside ``torch.vmap`` and ``torch.func.grad``; for a DTensor with sums still to be formed, of
            which each rank holds a summand; and where the memory was freed, as FSDP does with parameters.
    """
    if is_in_transform(tensor):
        raise ArtifactError("tensor: got one inside a torch.func transformation; expected a tensor outside of it")
    if _is_partial(tensor):
        raise ArtifactError("tensor: got a DTensor with sums still to be formed; expected tensor.full_tensor()")
    values: torch.Tensor = plain_tensor("tensor", tensor)
    if type(values).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise ArtifactError(
            f"tensor: got a {type(values).__name__}, whose values cannot be read; expected a torch.Tensor"
        )
    if is_freed(values):
        raise ArtifactError(f"tensor: the memory of one of shape {tuple(values.shape)} was freed; expected values")
    return values


def may_be_cloned(tensor: torch.Tensor) -> bool:
    """Whether a copy can be made on the spot.

    Of a freed storage it would end the process, and of a DTensor with sums still to be formed it would wait for the
    other ranks.
    """
    return not is_freed(tensor) and not _is_partial(tensor)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds its values as an array: neither a meta, a sparse nor a nested one, which has no shape."""
    return tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_meta


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory was freed, as FSDP and offloading do with parameters: reading it ends the process."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return False
    try:
        return not tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # made of other tensors, or inside a transformation
        return False


def _is_partial(tensor: torch.Tensor) -> bool:
    return any(placement.is_partial() for placement in getattr(tensor, "placements", ()))


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a sparse tensor with its zeros, and any other as it is; autograd passes through."""
    return tensor if tensor.layout is torch.strided else tensor.to_dense()
