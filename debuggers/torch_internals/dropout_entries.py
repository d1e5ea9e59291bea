"""The functions that drop for ``torch.nn.functional.dropout`` and its like (torch 2.7 to 2.15).

``torch.nn.functional`` looks each of them up in ``torch._VF`` at each call, so that another one can take its place: as
an attribute of that module, which else takes all of them from torch's compiled functions.
"""

from collections.abc import Callable
from typing import Any, Final

from debuggers.torch_import import torch
from debuggers.torch_internals.loss_entries import stand_for

DropoutEntry = Callable[..., Any]
"""Takes the tensor, the share of zeros, and whether to drop at all."""
KINDS: Final = tuple(
    f"{kind}{suffix}"
    for kind in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    for suffix in ("", "_")
)
_PLACE: Final = torch._VF


def dropout_entry(kind: str) -> DropoutEntry:
    """Returns torch's own function, whatever is in its place."""
    entry: DropoutEntry = getattr(torch._C._VariableFunctions, kind)
    return entry


def replace_dropout_entry(kind: str, entry: DropoutEntry) -> None:
    """Has another function called from now on, unless somebody else's is by now."""
    if kind not in vars(_PLACE):
        stand_for(dropout_entry(kind), entry)
        setattr(_PLACE, kind, entry)


def restore_dropout_entry(kind: str, entry: DropoutEntry) -> None:
    """Has torch's own function called again, where ``entry`` still is in its place."""
    if vars(_PLACE).get(kind) is entry:
        delattr(_PLACE, kind)
