"""Eigen-CAM: the first principal component of a layer's output, without classes and gradients."""

from typing import Any

from debuggers.class_maps.class_activation import ClassActivationDebugger
from debuggers.class_maps.map_layout import Layout
from debuggers.layer_values.values import real_values
from debuggers.torch_import import torch

# Together 2**14 steps of power iteration: components whose singular values differ by 1 in 1000 are told apart.
_SQUARINGS = 9
_STEPS = 32


class EigenCAMDebugger(ClassActivationDebugger):
    """Maps the first principal component of a layer's output; see ``ClassActivationDebugger`` for the outputs.

    Of each sample's activations as a matrix (positions, channels), not centred, the map is the projection on the first
    right singular vector (Muhammad and Yeasin 2020, "Eigen-CAM: Class Activation Map using Principal Components"). The
    sign of such a vector is open: it is chosen so that the positive part, which is kept, has the greater sum of
    squares. Activations that are nowhere negative thus keep their whole map. ``classes`` is None.
    """

    needs_gradients = False

    def __init__(self, target_layer: str, *, reshape: Layout | None = None) -> None:
        """Makes a debugger for one layer; see ``ClassActivationDebugger``."""
        super().__init__(target_layer, reshape=reshape)

    def maps(self, activation: torch.Tensor, output: Any, layout: Layout) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See ``ClassActivationDebugger.maps``."""
        activations = layout(real_values(activation))
        projection = _first_component(activations.flatten(2).double()).reshape(-1, *activations.shape[2:])
        return projection.relu().to(activations.dtype), None


def _first_component(matrices: torch.Tensor) -> torch.Tensor:
    """Returns the projections (batch, positions) of matrices (batch, channels, positions), with their sign."""
    vector = _first_eigenvector(matrices)
    if matrices.shape[1] <= matrices.shape[2]:
        projection = (vector.mT @ matrices).squeeze(1)
    else:
        projection = (vector * torch.linalg.vector_norm(matrices @ vector, dim=1, keepdim=True)).squeeze(2)
    kept, lost = projection.relu().square().sum(1), (-projection).relu().square().sum(1)
    return torch.where((lost > kept)[:, None], -projection, projection)


def _first_eigenvector(matrices: torch.Tensor) -> torch.Tensor:
    """Returns the first left or right singular vector, whichever is shorter, as (batch, length, 1); zeros for zeros.

    Power iteration, with a power of the Gram matrix. A decomposition would wait for the device; this does not.
    """
    power = matrices @ matrices.mT if matrices.shape[1] <= matrices.shape[2] else matrices.mT @ matrices
    for _ in range(_SQUARINGS):
        power = power / _nonzero(power.diagonal(dim1=1, dim2=2).sum(1)[:, None, None])  # to a trace of 1
        power = power @ power
    largest = power.diagonal(dim1=1, dim2=2).argmax(1)
    vector = torch.take_along_dim(power, largest[:, None, None], dim=2)
    for _ in range(_STEPS):
        vector = power @ _of_unit_length(vector)
    return _of_unit_length(vector)


def _of_unit_length(vectors: torch.Tensor) -> torch.Tensor:
    return vectors / _nonzero(torch.linalg.vector_norm(vectors, dim=1, keepdim=True))


def _nonzero(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values == 0, 1, values)
