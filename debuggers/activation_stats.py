"""Statistics of a layer's activations, over all values and channel by channel."""

from typing import Any

from tracker_adapters.errors import ArtifactError

from debuggers.forward_debugger import ForwardDebugger
from debuggers.instrumentation.module_selection import Selector
from debuggers.layer_values.channel_order import checked_channels_last, has_channels_last
from debuggers.layer_values.values import number, numbers, output_tensor, real_values, spread
from debuggers.torch_import import torch

SAMPLES = 100


class ActivationStatsDebugger(ForwardDebugger):
    """Captures ``layer_name``, ``module_type``, ``activation_stats`` and ``sample_values`` (the first 100).

    ``activation_stats`` holds shape; mean, std, min, max; l1_norm (the mean of the absolute values), l2_norm
    (the Euclidean norm); sparsity (the share of zeros), positive_ratio, saturation_low (share <= -1) and
    saturation_high (share >= 1). With three dimensions or more it also holds channel_means and channel_stds,
    one a channel; channels lie along dimension 1, as in (B, C, L) and (B, C, H, W), or are the last dimension: then
    ``channels_last`` is True there.

    NaN makes the means, norms and extremes NaN and counts in no share. Of an empty output all of them are NaN.
    If an output holds several tensors, the first is used; see ``layer_values.output_tensor``. An output without a
    tensor, or without plain real values, gives ``{"error": reason}``.
    """

    draws_random_numbers = False

    def __init__(self, layer_name: Selector, missing_ok: bool = False, *, channels_last: bool | None = None) -> None:
        """Makes a debugger for one layer or several.

        Args:
            layer_name: See ``ForwardDebugger``.
            missing_ok: See ``ForwardDebugger``.
            channels_last: Whether the channels are the last dimension, as in layers of transformers. By default the
                layer's type decides, and otherwise they are dimension 1.

        Raises:
            DebuggerConfigError: When ``channels_last`` is anything else.
        """
        super().__init__(layer_name, missing_ok)
        self.channels_last = checked_channels_last(channels_last)

    def process_forward(self, module: torch.nn.Module, input: Any, output: Any) -> dict[str, Any]:
        """See the class."""
        try:
            output, left_out = output_tensor(output)
            values = real_values(output)
        except ArtifactError as error:
            return {"error": str(error)}
        by_channel = _channels(values, is_last=has_channels_last(module, values, self.channels_last))
        return {
            "layer_name": self.layer_name,
            "module_type": type(module).__name__,
            "activation_stats": {"shape": list(output.shape), **spread(values), **_shares(values), **by_channel},
            "sample_values": numbers(values.flatten()[:SAMPLES]),
            **left_out,
        }


def _shares(values: torch.Tensor) -> dict[str, Any]:
    parts = {
        "l1_norm": values.abs().mean(),
        "l2_norm": torch.linalg.vector_norm(values) if values.numel() else values.mean(),
        "sparsity": _share(values == 0),
        "positive_ratio": _share(values > 0),
        "saturation_low": _share(values <= -1),
        "saturation_high": _share(values >= 1),
    }
    return {name: number(part) for name, part in parts.items()}


def _share(mask: torch.Tensor) -> torch.Tensor:
    # float64: float32 cannot tell the shares of more than 2**24 values apart.
    return mask.mean(dtype=torch.float64)


def _channels(values: torch.Tensor, *, is_last: bool) -> dict[str, Any]:
    if values.ndim < 3:
        return {}
    by_channel = values.movedim(-1 if is_last else 1, 0).flatten(1)
    channels, count = by_channel.shape
    stds = by_channel.std(1) if channels and count > 1 else by_channel.new_full((channels,), float("nan"))
    found = {"channel_means": numbers(by_channel.mean(1)), "channel_stds": numbers(stds)}
    return {**found, "channels_last": True} if is_last else found
