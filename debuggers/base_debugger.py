"""The base class of all debuggers: a callable on a datapoint and the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a debugger makes of its outputs.

    ``values``: (H, W), or (H, W, 3) in red, green and blue; floating point from 0 (black) to 1 (white), NaN allowed, on
    any device.
    """

    name: str
    values: torch.Tensor


class BaseDebugger(ABC):
    """Inspects a datapoint after the forward pass.

    ``draws_random_numbers`` set to False promises that the debugger never draws from a random number generator.
    SequentialDebugger then saves the time of keeping their states for it.
    """

    draws_random_numbers: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, datapoint: dict[str, Any], model: torch.nn.Module) -> Any:
        """Returns the debug outputs of a datapoint.

        Args:
            datapoint: ``inputs``, ``labels``, ``outputs``, ``meta_info`` and whatever the trainer adds.
            model: The model that made the outputs.

        Returns:
            Tensors, arrays, numbers and text, nested in dicts, lists, tuples and data classes.
        """

    def check_model(self, model: torch.nn.Module) -> None:
        """Refuses a model that the debugger cannot inspect, when SequentialDebugger is made; by default accepts all.

        Raises:
            LayerNotFoundError: When the model lacks a layer.
            DebuggerConfigError: When the debugger cannot be used with it.
        """
        return

    def pictures(self, outputs: Any, datapoint: dict[str, Any]) -> Iterator[Picture]:
        """Yields pictures of what the debugger returned, for the first datapoint of an epoch; by default none.

        Args:
            outputs: What the debugger returned.
            datapoint: What it was called with.
        """
        yield from ()
