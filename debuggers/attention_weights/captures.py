"""Collects the attention weights that are met during one call of a layer."""

from collections.abc import Callable
from typing import Any

from tracker_adapters.errors import ArtifactError

from debuggers.attention_weights.statistics import AttentionMeasurement
from debuggers.attention_weights.weights import AttentionWeights
from debuggers.instrumentation.isolation import describe
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.torch_import import torch


class AttentionCaptures:
    """What one call of a layer shows: ``by_name`` holds a capture for each set of attention weights.

    A capture is ``{"attention_map", "attention_stats", "source"}``, see ``AttentionMeasurement``, and has
    ``left_out`` where the map was too large to keep. Where something fails it is ``{"error": reason}``.
    """

    def __init__(self, max_elements: int) -> None:
        """Starts without captures.

        Args:
            max_elements: How many weights all kept maps together may have, and how many are computed at once.
        """
        self.by_name: dict[str, dict[str, Any]] = {}
        self._block = max_elements
        self._room = max_elements

    def add(self, name: str, weights: Callable[[], AttentionWeights], *values: Any) -> None:
        """Measures weights, computing them unseen by the layer that runs; no exception leaves this.

        Args:
            name: The capture's name.
            weights: Makes the weights.
            values: What they are made of; the first tensor among them says on which device.
        """
        tensors = (value for value in values if isinstance(value, torch.Tensor))
        try:
            with quiet_computation(next((tensor.device.type for tensor in tensors), "cpu")):
                self.by_name[name] = self._capture(weights())
        except ArtifactError as error:
            self.by_name[name] = {"error": f"no attention weights: {error}"}
        except Exception as error:
            # This may run inside the layer's forward, which has to go on.
            self.by_name[name] = {"error": f"no attention weights: computing them failed: {describe(error)}"}

    def _capture(self, weights: AttentionWeights) -> dict[str, Any]:
        measured = AttentionMeasurement(weights, self._room, self._block)
        capture = {"attention_map": measured.map, "attention_stats": measured.statistics, "source": weights.source}
        if measured.map is None:
            capture["left_out"] = (
                f"attention_map: {' x '.join(map(str, weights.shape))} values, of which max_elements={self._block} "
                f"left room for {self._room}; attention_stats are of the whole map"
            )
        else:
            self._room -= measured.map.numel()
        return capture
