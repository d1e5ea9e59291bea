"""What has no map is refused with one sentence that names it."""

import pytest
import torch
from debugger_parts import gradcam
from digit_models import digit_network, digits
from torch import nn

from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.gradcam import GradCAMDebugger


def test_a_sharded_model_is_refused(process_group):
    from torch.distributed.tensor import distribute_module, init_device_mesh

    model = digit_network()
    distribute_module(model.head, init_device_mesh("cpu", (1,)))

    with pytest.raises(DebuggerConfigError, match=r"head \(Linear\) computes together with other processes"):
        gradcam(model, digits(3)[0])


class Pair(nn.Module):
    def forward(self, images, mask):
        return images * mask


def test_inputs_that_the_model_does_not_take_are_refused():
    with pytest.raises(DebuggerConfigError, match=r"keys 'image', 'mask'; expected.*Pair.forward\(images, mask\)"):
        gradcam(Pair(), {"image": 1, "mask": 2}, "")
    with pytest.raises(DebuggerConfigError, match="keys 'outputs'; expected 'inputs'"):
        GradCAMDebugger("0")({"outputs": 1}, nn.Identity())


class Detached(nn.Module):
    def __init__(self, context):
        super().__init__()
        self.layer, self.head, self.context = nn.Conv2d(1, 3, 3), nn.Linear(108, 10), context

    def forward(self, images):
        with self.context():
            maps = self.layer(images).relu()
        return self.head(maps.flatten(1))


@pytest.mark.parametrize(
    ("context", "frozen"), [(torch.no_grad, False), (torch.no_grad, True), (torch.inference_mode, True)]
)
def test_scores_without_a_way_back_to_the_layer_are_refused(context, frozen):
    model = Detached(context).requires_grad_(not frozen)
    with pytest.raises(DebuggerConfigError, match="no gradient leads from the scores to layer 'layer'"):
        gradcam(model, digits(3)[0], "layer")


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.never, self.head = nn.Conv2d(1, 3, 3), nn.Identity(), nn.Linear(64, 10)

    def forward(self, images):
        self.layer(images)
        return self.head(images.flatten(1))


def test_a_layer_that_is_not_used_is_refused():
    with pytest.raises(DebuggerConfigError, match="no gradient leads from the scores to layer 'layer'"):
        gradcam(Unused(), digits(3)[0], "layer")
    with pytest.raises(DebuggerConfigError, match="'never' did not run"):
        gradcam(Unused(), digits(3)[0], "never")


def test_a_layer_that_does_not_exist_names_the_nearest():
    with pytest.raises(LayerNotFoundError, match=r"'backbone.act3'; nearest names: backbone.act2"):
        gradcam(digit_network(), digits(3)[0], "backbone.act3")


def test_other_rows_than_samples_are_refused():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), Windows(), nn.Linear(54, 10))

    with pytest.raises(DebuggerConfigError, match="returned 6 rows for 3 samples"):
        gradcam(model, digits(3)[0], "1.windows", logits=lambda scores: scores[:3] + scores[3:])


class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.windows = nn.Identity()

    def forward(self, maps):
        return self.windows(torch.cat(maps.chunk(2, dim=2))).flatten(1)


def test_models_without_values_are_refused():
    model = digit_network().to("meta")

    with pytest.raises(DebuggerConfigError, match="meta"):
        gradcam(model, digits(3)[0].to("meta"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_layer": None}, "target_layer is None"),
        ({"target_layer": "x", "target_class": "cat"}, "target_class is 'cat'"),
        ({"target_layer": "x", "target_class": 1.0}, "target_class is 1.0"),
        ({"target_layer": "x", "target_class": True}, "target_class is True"),
        ({"target_layer": "x", "reshape": 3}, "reshape is 3; expected a callable"),
        ({"target_layer": "x", "logits": "logits"}, "logits is 'logits'; expected a callable"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments, message):
    with pytest.raises(DebuggerConfigError, match=message):
        GradCAMDebugger(**arguments)
