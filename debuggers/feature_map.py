"""Keeps a layer's output with its basic statistics."""

from collections.abc import Iterator
from typing import Any

from tracker_adapters.errors import ArtifactError

from debuggers.base_debugger import Picture
from debuggers.forward_debugger import ForwardDebugger
from debuggers.layer_values.channel_order import has_channels_last
from debuggers.layer_values.values import channels_first, copy_and_spread, map_pictures, output_tensor, real_values
from debuggers.torch_import import torch


class FeatureMapDebugger(ForwardDebugger):
    """Captures ``feature_map``, ``stats`` (mean, std, min, max, shape) and ``layer_name``.

    The map keeps its dtype; the statistics are computed in float32 or wider. If an output holds several tensors, the
    first is used; see ``layer_values.output_tensor``. An output without a tensor, or without plain real values, gives
    ``{"error": reason}``. ``channels_last`` is True where the layer's type says that they come last; pictures are then
    made channel by channel all the same.
    """

    draws_random_numbers = False
    returns_copies = True

    def process_forward(self, module: torch.nn.Module, input: Any, output: Any) -> dict[str, Any]:
        """See the class."""
        try:
            output, left_out = output_tensor(output)
            values = real_values(output)
        except ArtifactError as error:
            return {"error": str(error)}
        feature_map, stats = copy_and_spread(output, values)
        return {
            "feature_map": feature_map,
            "stats": {**stats, "shape": list(output.shape)},
            "layer_name": self.layer_name,
            **left_out,
            **({"channels_last": True} if has_channels_last(module, values, None) else {}),
        }

    def pictures(self, outputs: Any, datapoint: dict[str, Any]) -> Iterator[Picture]:
        """Yields the maps of the first datapoint; see ``map_pictures``."""
        yield from map_pictures("feature_map", channels_first(outputs, "feature_map"))
