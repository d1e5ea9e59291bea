"""The base of class activation maps: runs the model again, captures one layer, and returns and draws the map."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from debuggers.base_debugger import BaseDebugger, Picture
from debuggers.class_maps.class_scores import Logits, TargetClass, checked_target_class, chosen_classes, class_scores
from debuggers.class_maps.layer_cut import LayerCut
from debuggers.class_maps.map_layout import Layout, batch_size, checked_layout, map_layout
from debuggers.class_maps.overlay import cam_pictures
from debuggers.errors import DebuggerConfigError
from debuggers.instrumentation.model_replay import check_thread, plain_model, replay_arguments, run_aside
from debuggers.instrumentation.module_selection import module_named
from debuggers.layer_values.values import real_values, spread
from debuggers.torch_import import torch
from debuggers.utils import get_layer_by_name


class ClassActivationDebugger(BaseDebugger):
    """Maps the positions at which a layer's output supports a class.

    The model runs again on ``datapoint["inputs"]``: a tensor, a tuple or list of positional arguments, or a mapping of
    keyword arguments. It runs in the mode that it is in. In training mode batch norm uses the batch's statistics, and
    dropout draws the masks that the caller's next draw would give; the generators and running statistics are as before
    afterwards (see ``model_replay.run_aside`` for what else is). Half precision is widened to float32 for the map.

    It returns ``gradcam``, the rectified map (batch, height, width) in the layer's own resolution, not normalised;
    ``target_layer``; ``target_class``, as configured; ``classes``, the classes of the maps, (batch,) int64 or
    None; and ``gradcam_stats`` (mean, std, shape). See ``map_layout`` for what becomes of other outputs than
    (batch, channels, height, width): in one dimension the height is 1, and in three the map has a depth. Where a layer
    returns several tensors, the first one counts, and where it is called several times, the last call. NaN in the
    activations or gradients of a sample makes its map NaN.

    The model must be whole in this process: one that is sharded, or that synchronises its batch statistics while it
    trains, is refused.
    """

    draws_random_numbers = False  # run_aside puts the generators back
    needs_gradients: ClassVar[bool] = True

    def __init__(
        self,
        target_layer: str,
        target_class: TargetClass = None,
        *,
        reshape: Layout | None = None,
        logits: Logits | None = None,
    ) -> None:
        """Makes a debugger for one layer.

        Args:
            target_layer: The layer's dotted name, without the names of wrappers. SequentialDebugger looks it up when it
                is made.
            target_class: One class for all samples, a list or tensor with one for each sample, or None: each sample's
                highest score.
            reshape: Rearranges the layer's output, and the gradient with respect to it, to
                (batch, channels, height, width), where that cannot be determined; for channels last
                ``lambda x: x.movedim(-1, 1)``.
            logits: Finds the scores (batch, classes) in what the model returns; by default see
                ``class_scores.class_scores``.

        Raises:
            DebuggerConfigError: For arguments of another type.
        """
        if not isinstance(target_layer, str):
            raise DebuggerConfigError(f"target_layer is {target_layer!r}; expected the dotted name of a layer")
        for name, function in (("reshape", reshape), ("logits", logits)):
            if function is not None and not callable(function):
                raise DebuggerConfigError(f"{name} is {function!r}; expected a callable or None")
        self.target_layer = target_layer
        self.target_class = checked_target_class(target_class)
        self.reshape = reshape
        self.logits = logits

    def __call__(self, datapoint: dict[str, Any], model: torch.nn.Module) -> dict[str, Any]:
        """Returns the map of each sample; see the class.

        Raises:
            LayerNotFoundError: When the model has no such layer; the message lists the nearest names.
            DebuggerConfigError: When the layer or the model returns something that has no map, or the model is
                compiled and this is not the main thread.
        """
        if "inputs" not in datapoint:
            raise DebuggerConfigError(
                f"the datapoint has the keys {', '.join(map(repr, datapoint))}; expected 'inputs' among them, to run "
                "the model again"
            )
        check_thread(model)
        model = plain_model(model)
        layer = self._layer(model)
        maps, classes = run_aside(
            model, lambda: self._look(datapoint["inputs"], model, layer), gradients=self.needs_gradients
        )
        stats = spread(maps)
        return {
            "gradcam": maps,
            "target_layer": self.target_layer,
            "target_class": self.target_class,
            "classes": classes,
            "gradcam_stats": {"mean": stats["mean"], "std": stats["std"], "shape": list(maps.shape)},
        }

    def check_model(self, model: torch.nn.Module) -> None:
        """Looks the layer up.

        Raises:
            LayerNotFoundError: When the model has no such layer; the message lists the nearest names.
        """
        self._layer(plain_model(model))

    def pictures(self, outputs: Any, datapoint: dict[str, Any]) -> Iterator[Picture]:
        """Yields the first sample's input beside its overlay; see ``cam_overlay.cam_pictures``."""
        yield from cam_pictures(outputs.get("gradcam"), datapoint.get("inputs"))

    @abstractmethod
    def maps(self, activation: torch.Tensor, output: Any, layout: Layout) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns the rectified maps (batch, *positions), and their classes.

        Args:
            activation: The layer's output, a leaf of the graph.
            output: What the model returned.
            layout: Rearranges the activation to (batch, channels, *positions).
        """

    def _layer(self, model: torch.nn.Module) -> torch.nn.Module:
        found = module_named(model, self.target_layer)
        return plain_model(found.module if found is not None else get_layer_by_name(model, self.target_layer))

    def _look(
        self, inputs: Any, model: torch.nn.Module, layer: torch.nn.Module
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        args, kwargs = replay_arguments(model, inputs)
        cut = LayerCut()
        with cut.at(layer):
            output = model(*args, **kwargs)
            activation = cut.leaf(self.target_layer)
            if self.reshape is not None:
                layout = checked_layout(self.reshape)
            else:
                layout = map_layout(activation, layer, model, inputs)
            maps, classes = self.maps(activation, output, layout)
        samples = batch_size(inputs)
        if samples is not None and len(maps) != samples:
            raise self._wrong_rows(len(maps), samples)
        return maps.detach(), classes

    def _wrong_rows(self, rows: int, samples: int) -> DebuggerConfigError:
        return DebuggerConfigError(
            f"layer {self.target_layer!r} returned {rows} rows for {samples} samples; expected one row for each: pass "
            "reshape=callable that puts the samples first"
        )


class GradientMapDebugger(ClassActivationDebugger):
    """Weights each channel of the layer's output by the gradient of a class's score, and adds the channels up.

    A layer whose positions the scores do not read gives a map of zeros: the patches behind the last attention of a
    transformer that classifies by its class token, for instance. Choose a layer before it.
    """

    def maps(self, activation: torch.Tensor, output: Any, layout: Layout) -> tuple[torch.Tensor, torch.Tensor | None]:
        """See ``ClassActivationDebugger.maps``."""
        scores = class_scores(output, self.logits)
        classes = chosen_classes(scores, self.target_class)
        gradient = self._gradient(scores, classes, activation)
        activations, gradients = layout(real_values(activation)), layout(real_values(gradient))
        if activations.shape[0] != scores.shape[0]:
            raise self._wrong_rows(activations.shape[0], scores.shape[0])
        return (self.weights(activations, gradients) * activations).sum(1).relu(), classes

    @abstractmethod
    def weights(self, activations: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        """Returns the weight of each channel, (batch, channels, 1, 1), with as many ones as there are positions.

        Args:
            activations: (batch, channels, *positions).
            gradients: Of the score with respect to them, in the same shape.
        """

    def _gradient(self, scores: torch.Tensor, classes: torch.Tensor, activation: torch.Tensor) -> torch.Tensor:
        chosen = torch.arange(scores.shape[1], device=scores.device) == classes[:, None]
        gradient = None
        if scores.requires_grad:
            (gradient,) = torch.autograd.grad(scores, activation, chosen.to(scores.dtype), allow_unused=True)
        if gradient is None:
            raise DebuggerConfigError(
                f"no gradient leads from the scores to layer {self.target_layer!r}: expected scores that depend on its "
                "output, and no torch.no_grad, detach or reentrant checkpoint in the model between them"
            )
        return gradient


def position_dimensions(maps: torch.Tensor) -> tuple[int, ...]:
    """Returns which dimensions of (batch, channels, *positions) are positions."""
    return tuple(range(2, maps.ndim))
