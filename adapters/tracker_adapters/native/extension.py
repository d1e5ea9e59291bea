"""Loads the compiled code, where it was built and can be used on this machine.

Everything works without it: tensors are measured with torch operations, tens of times slower, and histograms are merged
and packed by NumPy, several times slower.
"""

import importlib.util
import os
import struct
from functools import cache
from pathlib import Path
from types import ModuleType

VARIABLE = "STEPSCOPE_NATIVE"
"""``off``, or the instruction set to use, such as ``portable``; by default the widest that the processor has."""

_BLOCK = 4096
_MAPPED = 1

REMEDY = "pip install --force-reinstall --no-deps stepscope brings it, or builds it where there is a C compiler"


def kernels() -> ModuleType | None:
    """Returns the compiled functions, which ``_kernels.pyi`` documents; None where ``why_not`` says why not."""
    return _loaded()[0]


def why_not() -> str:
    """Returns why the compiled code is not used; empty where it is."""
    return "" if kernels() else _loaded()[1]


def instructions() -> str:
    """Returns the name of the instruction set that is used; empty where ``kernels`` is None."""
    return _loaded()[1] if kernels() else ""


@cache
def _loaded() -> tuple[ModuleType | None, str]:
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "off":
        return None, f"{VARIABLE}=off"
    spec = importlib.util.find_spec("tracker_adapters.native._kernels")
    if spec is None or spec.origin is None:
        return None, f"the compiled code was not built; {REMEDY}"
    try:
        if _is_damaged(Path(spec.origin)):
            return None, f"{spec.origin} is damaged; {REMEDY}"
        from tracker_adapters.native import _kernels
    except (ImportError, OSError) as error:
        return None, f"the compiled code cannot be loaded ({error}); {REMEDY}"
    available = _kernels.instruction_sets()
    if wanted and wanted not in available:
        return None, f"{VARIABLE}={wanted}; expected off, {', '.join(available)}"
    _kernels.use(wanted or available[-1])
    return _kernels, wanted or available[-1]


def _is_damaged(path: Path) -> bool:
    """Whether an ELF file lacks some of what is mapped to memory, or has a block of zeros there, as after a power cut.

    To load or to run that would end the process.
    """
    content = path.read_bytes()
    if content[:5] != b"\x7fELF\x02":  # macOS checks its own format
        return False
    try:
        (table,), (entry, entries) = struct.unpack_from("<Q", content, 32), struct.unpack_from("<HH", content, 54)
        parts = [struct.unpack_from("<I4xQ16xQ", content, table + entry * number) for number in range(entries)]
    except (struct.error, OverflowError):
        return True
    return any(
        offset + size > len(content) or (kind == _MAPPED and _has_zeros(content[: offset + size], offset))
        for kind, offset, size in parts
    )


def _has_zeros(content: bytes, start: int) -> bool:
    """Whether a block of a file has nothing but zeros from ``start`` on; small remainders of blocks may."""
    blocks = (content[max(start, at) : at + _BLOCK] for at in range(start - start % _BLOCK, len(content), _BLOCK))
    return any(len(block) >= _BLOCK // 4 and not any(block) for block in blocks)
