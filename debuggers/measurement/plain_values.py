"""Brings any tensor to the plain values that a measurement reads: one dimension, float32 or float64."""

from collections.abc import Callable, Iterator, Sequence

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.tensors import is_sharded, local_part, plain_tensor

from debuggers.torch_import import torch

MAX_LENGTH = 1 << 31  # elements of a piece; the kernels count in 32 bits
WIDE = frozenset({torch.float32, torch.float64})
_MAX_OFFSET = 1 << 44  # bytes
_CONVERTED_LENGTH = 1 << 22  # bounds the memory of copies
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
_WITHIN_FLOAT32 = frozenset(
    getattr(torch, name)
    for name in (
        "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "bool", "int8", "uint8", "int16", "uint16",
    )
    if hasattr(torch, name)
)  # fmt: skip


def plain_values(what: int | str, tensor: object) -> tuple[torch.Tensor, bool]:
    """Returns a tensor's values in one dimension, and whether they are a local shard.

    They share memory with a tensor that is dense in any order of its dimensions, and lie on its device (other than
    CUDA: on the host). Sparse tensors give their coalesced values, quantised ones their real values.

    Raises:
        ArtifactError: For what is no tensor or holds no values: meta, nested, uninitialised.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ArtifactError(f"{called(what)}: got {type(tensor).__name__}; expected a torch tensor")
    try:
        return _flat(called(what), tensor)
    except ArtifactError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        raise unreadable(called(what), tensor, error) from error


def pieces(
    what: int | str, flat: torch.Tensor, readable: Callable[[torch.dtype], bool] = WIDE.__contains__
) -> Iterator[torch.Tensor]:
    """Cuts values into contiguous pieces, at least one, each made when it is asked for.

    Those of a dtype for which ``readable`` is true stay what they are, and the others become float32 or float64:
    narrower floats and small integers float32, other integers float64 (beyond 2**53 rounded), complex
    values their modulus in float64: that of finite complex64 values can exceed float32.

    Raises:
        ArtifactError: For a dtype that torch cannot convert.
    """
    ready = readable(flat.dtype)
    for part in _split(flat, MAX_LENGTH if ready else _CONVERTED_LENGTH):
        try:
            yield part if ready else _converted(part)
        except (RuntimeError, TypeError) as error:
            raise unreadable(called(what), flat, error) from error


def difference_pieces(what: int | str, after: torch.Tensor, before: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the pieces of ``after - before``, two tensors of one shape on one device, formed a piece at a time.

    Narrow floats and integers are widened first, as ``pieces`` does it: in bfloat16 a difference would keep 8 bits.

    Raises:
        ArtifactError: For what ``plain_values`` and ``pieces`` refuse.
    """
    if after.layout is not torch.strided or before.layout is not torch.strided:
        # The places of their stored values need not be the same.
        yield from pieces(what, plain_values(what, torch.sub(after.detach(), before.detach()))[0])
        return
    if after.stride() != before.stride():
        after, before = after.contiguous(), before.contiguous()
    (first, _), (second, _) = plain_values(what, after), plain_values(what, before)
    address(what, first)
    address(what, second)
    for part, subtracted in zip(_split(first), _split(second), strict=True):
        try:
            difference = torch.sub(_widened(part), _widened(subtracted))
        except (RuntimeError, TypeError) as error:
            raise unreadable(called(what), after, error) from error
        yield from pieces(what, difference)


def address(what: int | str, tensor: torch.Tensor) -> int:
    """Where the tensor's memory starts; whoever hands it on keeps the tensor alive.

    Raises:
        ArtifactError: If its storage was freed, as FSDP does with parameters that it gathers, or never existed.
    """
    try:
        pointer = tensor.data_ptr()
    except RuntimeError as error:
        raise unreadable(called(what), tensor, error) from error
    # A storage without memory begins at 0; beyond what an offset can be, the memory is there.
    if pointer < _MAX_OFFSET and pointer == tensor.storage_offset() * tensor.element_size() and tensor.numel():
        raise ArtifactError(f"{called(what)}: the storage of shape {tuple(tensor.shape)} was freed; expected values")
    return pointer


def addresses(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Where the memory of each starts, as ``address`` says; an empty list where that cannot be told of all at once."""
    try:
        pointers = list(map(torch.Tensor.data_ptr, tensors))
    except RuntimeError:
        return []
    return pointers if pointers and min(pointers) >= _MAX_OFFSET else []


def called(what: int | str) -> str:
    """How an error names the tensor at a position or of a name."""
    return f"tensor {what!r}"


def unreadable(what: str, tensor: torch.Tensor, error: Exception) -> ArtifactError:
    """The error for a tensor that torch itself cannot read."""
    reason = str(error).partition("\n")[0]
    return ArtifactError(f"{what}: {type(tensor).__name__} of {tensor.dtype} has no plain values ({reason})")


def _flat(what: str, tensor: torch.Tensor) -> tuple[torch.Tensor, bool]:
    values, local_shard = local_part(tensor.detach()), is_sharded(tensor)
    if values.layout == torch.sparse_coo and not values.is_meta:
        values = values.coalesce().values()
    elif values.layout in _COMPRESSED and not values.is_meta:
        values = values.values()
    values = plain_tensor(what, values)
    if values.device.type not in {"cpu", "cuda"}:
        values = values.cpu()
    if not values.is_contiguous() and torch.ops.aten.is_non_overlapping_and_dense(values):
        return values.as_strided((values.numel(),), (1,)), local_shard
    # Of an expanded tensor a reshape is a view that has no memory for each element.
    return values.reshape(-1).contiguous(), local_shard


def _split(flat: torch.Tensor, length: int = _CONVERTED_LENGTH) -> Sequence[torch.Tensor]:
    return torch.split(flat, length) if flat.numel() else (flat,)


def _widened(part: torch.Tensor) -> torch.Tensor:
    return part if part.is_complex() or part.dtype in WIDE else _converted(part)


def _converted(part: torch.Tensor) -> torch.Tensor:
    if part.is_complex():
        return part.to(torch.complex128).abs()
    return part.to(torch.float32 if part.dtype in _WITHIN_FLOAT32 else torch.float64)
