"""Parameters of torch that nothing is to train: what a framework keeps as such where torch's modules have buffers."""

from collections.abc import Iterable
from typing import Any

from debuggers.torch_import import torch

_noted: Any = torch.utils.weak.WeakIdKeyDictionary()


def note_states(tensors: Iterable[torch.Tensor]) -> None:
    """Says that parameters are a layer's state, such as moving statistics: they count neither as trained nor frozen."""
    _noted.update(dict.fromkeys(tensors, True))


def is_state(tensor: torch.Tensor) -> bool:
    """Whether a parameter was noted as a layer's state."""
    return bool(_noted) and tensor in _noted
