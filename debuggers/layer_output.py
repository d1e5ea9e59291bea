"""Keeps a layer's output, maps averaged over blocks to save space."""

from collections.abc import Iterator
from typing import Any

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.base_debugger import Picture
from debuggers.errors import DebuggerConfigError
from debuggers.forward_debugger import ForwardDebugger
from debuggers.instrumentation.module_selection import Selector
from debuggers.layer_values.channel_order import checked_channels_last, has_channels_last
from debuggers.layer_values.values import channels_first, map_pictures, output_tensor, plain_output, real_values
from debuggers.torch_import import torch


class LayerOutputDebugger(ForwardDebugger):
    """Captures ``layer_name``, ``original_shape``, ``output``, ``downsampled`` and ``downsample_factor``.

    Maps, (B, C, H, W) or with three dimensions (B, H, W) or (C, H, W), are averaged over blocks of
    ``downsample_factor`` × ``downsample_factor`` elements. Blocks at the lower and right edge, and on maps smaller
    than a block, average over the elements that there are: H × W becomes ceil(H / factor) × ceil(W / factor).
    Averages are float32, of float64, integers and bool float64. A block with a NaN is NaN.

    Where channels come last, (B, H, W, C) or (B, tokens, C), blocks lie in H × W, or are ``downsample_factor`` tokens;
    ``channels_last`` is then True.

    Outputs with another number of dimensions, without elements, or with nothing to average stay as they are, dtype
    included, and ``downsampled`` is False. If an output holds several tensors, the first is used; see
    ``layer_values.output_tensor``. An output without a tensor, or without plain real values, gives
    ``{"error": reason}``.
    """

    draws_random_numbers = False

    def __init__(
        self,
        layer_name: Selector,
        downsample_factor: int = 4,
        missing_ok: bool = False,
        *,
        channels_last: bool | None = None,
    ) -> None:
        """Makes a debugger for one layer or several.

        Args:
            layer_name: The layer's dotted name in the model, or a pattern or type; see ``ForwardDebugger``.
            downsample_factor: Height and width of a block; 1 keeps maps as they are.
            missing_ok: A model without such a layer is accepted; the debugger then captures nothing.
            channels_last: Whether the channels are the last dimension, as in layers of transformers. By default the
                layer's type decides, and otherwise they are dimension 1.

        Raises:
            DebuggerConfigError: When the factor is no int, or below 1, or ``channels_last`` is anything else.
        """
        super().__init__(layer_name, missing_ok=missing_ok)
        check_value("downsample_factor", downsample_factor, at_least(1), DebuggerConfigError)
        self.downsample_factor = downsample_factor
        self.channels_last = checked_channels_last(channels_last)

    def process_forward(self, module: torch.nn.Module, input: Any, output: Any) -> dict[str, Any]:
        """See the class."""
        try:
            output, left_out = output_tensor(output)
            values = plain_output(output)
            is_last = has_channels_last(module, values, self.channels_last)
            kept = self._averaged_last(values) if is_last else self._averaged(values)
        except ArtifactError as error:
            return {"error": str(error)}
        return {
            "layer_name": self.layer_name,
            "original_shape": list(output.shape),
            "output": kept,
            "downsampled": kept.shape != values.shape,
            "downsample_factor": self.downsample_factor,
            **left_out,
            **({"channels_last": True} if is_last else {}),
        }

    def pictures(self, outputs: Any, datapoint: dict[str, Any]) -> Iterator[Picture]:
        """Yields the maps of the first datapoint; see ``map_pictures``."""
        yield from map_pictures("output", channels_first(outputs, "output"))

    def _averaged_last(self, values: torch.Tensor) -> torch.Tensor:
        if values.ndim == 4:
            return self._averaged(values.movedim(-1, 1)).movedim(1, -1)
        if values.ndim != 3 or not values.numel() or self.downsample_factor == 1:
            return values
        tokens = real_values(values).transpose(1, 2)
        block = min(self.downsample_factor, tokens.shape[2])
        pooled = torch.nn.functional.avg_pool1d(tokens, block, ceil_mode=True, count_include_pad=False)
        return pooled.transpose(1, 2)

    def _averaged(self, values: torch.Tensor) -> torch.Tensor:
        if values.ndim not in (3, 4) or not values.numel():
            return values
        height, width = values.shape[-2:]
        block = (min(self.downsample_factor, height), min(self.downsample_factor, width))
        if block == (1, 1):
            return values
        return torch.nn.functional.avg_pool2d(real_values(values), block, ceil_mode=True, count_include_pad=False)
