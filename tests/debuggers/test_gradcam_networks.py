"""Grad-CAM takes networks as they come: frozen, in place, shared, checkpointed, wrapped, compiled."""

import copy

import pytest
import torch
from debugger_parts import gradcam
from digit_models import digit_network, digits
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_parts import Applies, Graphs

from debuggers.eigencam import EigenCAMDebugger
from debuggers.errors import DebuggerConfigError
from debuggers.gradcam import GradCAMDebugger


def test_frozen_models_have_the_same_map():
    model, (images, _) = digit_network().eval(), digits(3)
    expected = gradcam(model, images)

    assert torch.equal(expected, gradcam(model.requires_grad_(False), images))


def test_a_model_made_in_inference_mode_works():
    with torch.inference_mode():
        model = digit_network().eval()
    images = digits(3)[0]

    assert model.head.weight.is_inference()
    assert torch.equal(gradcam(digit_network().eval(), images), gradcam(model, images))


class Returned(nn.Module):
    """Passes its input on, which the network overwrites afterwards."""

    def __init__(self, inplace):
        super().__init__()
        self.inplace, self.layer, self.head = inplace, nn.Identity(), nn.Linear(64, 10)

    def forward(self, images):
        seen = self.layer(images)
        if self.inplace:
            images.mul_(0.5)
            seen.sigmoid_()
        else:
            seen = seen.sigmoid()
        return self.head(seen.flatten(1))


@pytest.mark.parametrize("layer", ["0", "1"])
def test_what_happens_in_place_behind_the_layer_changes_neither_values_nor_gradient(layer):
    def network(inplace):
        torch.manual_seed(0)
        view = Applies(lambda maps: maps.transpose(2, 3))
        return nn.Sequential(nn.Conv2d(1, 3, 3), view, nn.ReLU(inplace), nn.Flatten(), nn.Linear(108, 10))

    images = digits(3)[0]
    expected = gradcam(network(False), images, layer, 1)

    assert expected.amax((1, 2)).min() > 0
    torch.testing.assert_close(gradcam(network(True), images, layer, 1), expected)


def test_a_layer_that_returns_its_input_is_seen_as_it_was():
    def network(inplace):
        torch.manual_seed(0)
        return Returned(inplace)

    images = digits(3)[0]
    kept = images.clone()
    expected = gradcam(network(False), images, "layer", 5)
    assert expected.max() > 0
    assert torch.equal(expected, gradcam(network(True), images, "layer", 5))
    assert torch.equal(kept, images)


class Twice(nn.Module):
    def __init__(self, second=None):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.other = copy.deepcopy(self.conv) if second else self.conv
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        return self.head(self.other(self.conv(images).tanh()).tanh().flatten(1))


def test_of_a_layer_that_is_called_twice_the_last_call_counts():
    torch.manual_seed(0)
    once, twice = Twice(second=True), Twice()
    twice.load_state_dict(once.state_dict())

    expected = gradcam(once, digits(3)[0], "other")
    assert expected.max() > 0
    assert torch.equal(expected, gradcam(twice, digits(3)[0], "conv"))


class Tupled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(1, 3, 3)

    def forward(self, images):
        return {"name": "maps", "maps": (self.layer(images), None)}


class TupledNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = Tupled(), nn.Linear(108, 10)

    def forward(self, images):
        return self.head(self.inner(images)["maps"][0].relu_().flatten(1))


def test_of_several_tensors_the_first_one_counts():
    network, images = TupledNetwork(), digits(3)[0]

    expected = gradcam(network, images, "inner.layer")
    assert expected.max() > 0
    assert torch.equal(expected, gradcam(network, images, "inner"))


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.network, self.reentrant = digit_network(), reentrant

    def forward(self, images):
        if self.reentrant is None:
            maps = self.network.backbone(images)
        else:
            maps = checkpoint(self.network.backbone, images, use_reentrant=self.reentrant)
        return self.network.head(maps.flatten(1))


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("layer", ["network.backbone.conv1", "network.backbone.act1"])
def test_activation_checkpointing_changes_neither_the_map_nor_the_running_statistics(layer, frozen):
    images = digits(8)[0]
    model = Checkpointed(reentrant=False).requires_grad_(not frozen)
    before = copy.deepcopy(model.state_dict())
    versions = [buffer._version for buffer in model.buffers()]

    found = gradcam(model, images, layer)

    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert versions == [buffer._version for buffer in model.buffers()]
    assert found.max() > 0
    torch.testing.assert_close(gradcam(Checkpointed(None), images, layer), found)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
def test_a_layer_inside_a_reentrant_checkpoint_is_refused():
    with pytest.raises(DebuggerConfigError, match="reentrant checkpoint"):
        gradcam(Checkpointed(reentrant=True), digits(8)[0], "network.backbone.conv1")


class FrozenBackbone(nn.Module):
    def __init__(self, context):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head, self.context = nn.Conv2d(1, 3, 3), nn.Linear(108, 10), context

    def forward(self, images):
        with self.context():
            maps = self.layer(images)
        return self.head(maps.relu().flatten(1))


def test_the_last_layer_that_runs_without_gradients_has_a_map():
    images = digits(3)[0]

    expected = gradcam(FrozenBackbone(torch.enable_grad), images, "layer")
    assert expected.max() > 0
    assert torch.equal(expected, gradcam(FrozenBackbone(torch.no_grad), images, "layer"))


@pytest.mark.parametrize(
    ("convolution", "shape", "expected"),
    [(nn.Conv1d, (2, 1, 12), (2, 1, 10)), (nn.Conv3d, (2, 1, 5, 6, 7), (2, 3, 4, 5))],
)
def test_layers_of_one_and_three_dimensions(convolution, shape, expected):
    network = nn.Sequential(convolution(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    inputs = torch.randn(shape)
    network(inputs)

    assert gradcam(network, inputs, "1").shape == expected


def test_channels_last_need_a_reshape():
    torch.manual_seed(0)
    channels_last = Applies(lambda maps: maps.movedim(1, -1))
    network = nn.Sequential(nn.Conv2d(1, 3, 3), channels_last, nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
    images = digits(3)[0]

    expected = gradcam(network, images, "0", 1)
    assert expected.max() > 0
    assert torch.equal(expected, gradcam(network, images, "1", 1, reshape=lambda maps: maps.movedim(-1, 1)))


class MaskedEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.head = nn.Linear(8, 10)

    def forward(self, tokens):
        padding = torch.arange(9).repeat(len(tokens), 1) >= 7
        return self.head(self.encoder(tokens, src_key_padding_mask=padding)[:, :7].mean(1))


@pytest.mark.parametrize("debugger", [GradCAMDebugger, EigenCAMDebugger])
def test_inner_layers_run_where_transformers_have_a_fast_path(debugger):
    network, tokens = MaskedEncoder().eval().requires_grad_(False), torch.randn(2, 9, 8)
    assert debugger("encoder.layers.0.norm1")({"inputs": tokens}, network)["gradcam"].shape == (2, 3, 3)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = digit_network()

    def forward(self, images, factor=1, shift=0):
        return self.network(images * factor + shift)


class WholeMapping(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = digit_network()

    def forward(self, inputs):
        return {"logits": self.network(inputs["image"])}


def test_inputs_may_be_positional_or_keyword_arguments_or_one_mapping():
    images = digits(3)[0]
    expected = gradcam(digit_network().eval(), images * 2 + 1)
    calls = [
        (TwoInputs(), [images, 2, 1]),
        (TwoInputs(), {"images": images, "factor": 2, "shift": 1}),
        (WholeMapping(), {"image": images * 2 + 1, "name": "x"}),
    ]
    for model, inputs in calls:
        assert torch.equal(expected, gradcam(model.eval(), inputs, "network.backbone.act2"))


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda model: torch.compile(model, backend="eager")])
def test_wrapped_models_run_as_what_they_wrap(wrap):
    model, (images, _) = digit_network().eval(), digits(3)

    assert torch.equal(gradcam(model, images), gradcam(wrap(model), images))


def test_compiled_parts_run_eagerly_and_stay_compiled():
    compiled, model, (images, _) = Graphs(), digit_network().eval(), digits(3)
    expected = gradcam(model, images)
    model.backbone = torch.compile(model.backbone, backend=compiled)
    with torch.no_grad():
        model(images)
        assert len(compiled) == 1
        assert torch.equal(expected, gradcam(model, images))
        model(images)
    assert len(compiled) == 1


def test_distributed_data_parallel_is_unwrapped_and_its_gradients_stay(process_group):
    model, (images, labels) = digit_network(), digits(3)
    wrapped = nn.parallel.DistributedDataParallel(model)
    loss = nn.functional.cross_entropy(wrapped(images), labels)

    assert torch.equal(gradcam(model, images), gradcam(wrapped, images))
    loss.backward()
    assert model.head.weight.grad is not None
