"""A debugger of another package: the channels of a layer that respond most to a datapoint."""

import torch

from debuggers.base_debugger import Picture
from debuggers.forward_debugger import ForwardDebugger


class TopChannelsDebugger(ForwardDebugger):
    """Keeps the ``count`` channels of a layer's output (batch, channels, …) with the largest mean.

    NaN counts as larger than every number, as in ``torch.topk``.
    """

    draws_random_numbers = False
    returns_copies = True  # topk makes new tensors

    def __init__(self, layer_name, count=3):
        super().__init__(layer_name)
        self.count = count

    def process_forward(self, module, input, output):
        means = output.flatten(2).mean(2) if output.ndim > 2 else output
        values, channels = means.topk(min(self.count, means.shape[1]), dim=1)
        return {"channels": channels, "means": values, "largest": values.max()}

    def pictures(self, outputs, datapoint):
        if "means" in outputs:  # else the layer did not run, and the slot says why
            yield Picture("means", torch.sigmoid(torch.as_tensor(outputs["means"])))
