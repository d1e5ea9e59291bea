"""Grad-CAM++: positions count by how much they contribute, so that several objects of a class all show."""

from debuggers.class_maps.class_activation import GradientMapDebugger, position_dimensions
from debuggers.torch_import import torch


class GradCAMPlusPlusDebugger(GradientMapDebugger):
    """Maps where a layer's output supports a class; see ``ClassActivationDebugger`` for arguments and outputs.

    A channel's weight is the sum over the positions of alpha * relu(g), where g is the gradient of the class's score,
    alpha = g**2 / (2 * g**2 + sum(A) * g**3), and sum(A) adds the channel up (Chattopadhay et al. 2018, "Grad-CAM++:
    Generalized Gradient-based Visual Explanations for Deep Convolutional Networks", equations 5, 10 and 19). The
    paper's exp(score), a positive factor of each sample's whole map, is left out: it overflows.
    """

    def weights(self, activations: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        """See ``GradientMapDebugger.weights``."""
        positions = position_dimensions(gradients)
        # alpha without the common factor g**2, which would underflow; where g is zero, relu(g) makes it harmless.
        denominators = 2 + activations.sum(positions, keepdim=True) * gradients
        alphas = torch.where(denominators == 0, 0, 1 / denominators)
        return (alphas * gradients.relu()).sum(positions, keepdim=True)
