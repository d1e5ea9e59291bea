"""Grad-CAM: each channel weighs as much as its gradient does on average."""

from debuggers.class_maps.class_activation import GradientMapDebugger, position_dimensions
from debuggers.torch_import import torch


class GradCAMDebugger(GradientMapDebugger):
    """Maps where a layer's output supports a class; see ``ClassActivationDebugger`` for arguments and outputs.

    A channel's weight is the mean over the positions of the gradient of the class's score; the map is the weighted sum
    of the channels, rectified (Selvaraju et al. 2017, "Grad-CAM: Visual Explanations from Deep Networks via
    Gradient-based Localization", equations 1 and 2).
    """

    def weights(self, activations: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        """See ``GradientMapDebugger.weights``."""
        return gradients.mean(position_dimensions(gradients), keepdim=True)
