"""A debugger watches one layer, or all that a pattern or a type matches, whatever wraps the model."""

import re

import pytest
import torch
from debugger_parts import entry
from digit_models import digit_network, digits
from torch import nn
from torch.distributed import fsdp, init_device_mesh
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel

from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.forward_debugger import ForwardDebugger
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class Named(ForwardDebugger):
    """Says what it saw in the form of the documents."""

    def process_forward(self, module, input, output):
        return {"layer_name": self.layer_name, "type": type(module).__name__, "output": output}


def config(layer_name, name="seen", **args):
    return [entry(name, Named, layer_name=layer_name, **args)]


def watched_call(model, debuggers_config, call=None, **options):
    """Runs the model on two digits, and returns the slots and the debugger."""
    images, _ = digits(2)
    with SequentialDebugger(debuggers_config, model, **options) as sequential:
        sequential.enabled = True
        with torch.no_grad():
            (model if call is None else call)(images)
        outputs = sequential({"inputs": images, "meta_info": {"idx": 0}}, model)
        sequential.reset_buffer()
    return outputs, sequential


def test_a_plain_name_gives_the_bare_capture():
    outputs, sequential = watched_call(digit_network(), config("backbone.conv1"))
    assert (outputs["seen"]["layer_name"], outputs["seen"]["type"]) == ("backbone.conv1", "Conv2d")
    assert list(sequential.forward_debuggers) == ["backbone.conv1"]


@pytest.mark.parametrize(
    ("selector", "layers"),
    [
        ("backbone.conv*", ["backbone.conv1", "backbone.conv2"]),
        ("back*1", ["backbone.conv1", "backbone.norm1", "backbone.act1"]),
        (r"re:.*conv\d", ["backbone.conv1", "backbone.conv2"]),
        (re.compile("head|dropout"), ["dropout", "head"]),
        (nn.Conv2d, ["backbone.conv1", "backbone.conv2"]),
        ("hea[d]", ["head"]),
        (nn.Linear, ["head"]),
    ],
)
def test_a_pattern_or_a_type_gives_each_layer_under_its_own_name(selector, layers):
    outputs, sequential = watched_call(digit_network(), config(selector))
    assert list(outputs["seen"]) == layers
    assert [capture["layer_name"] for capture in outputs["seen"].values()] == layers
    (debugger,) = sequential.debuggers.values()
    assert sequential.forward_debuggers == {layer: [debugger] for layer in layers}
    assert debugger.layer_name is selector


def test_the_model_itself_is_called_by_its_class():
    outputs, _ = watched_call(digit_network(), config(""))
    assert (outputs["seen"]["layer_name"], outputs["seen"]["output"].shape) == ("DigitNetwork", (2, 10))


def test_captures_reach_the_page_by_name(tmp_path):
    model, (images, _) = digit_network(), digits(2)
    with SequentialDebugger(config("backbone.conv*"), model) as sequential:
        sequential.begin_epoch(tmp_path)
        model(images)
        outputs = sequential({"meta_info": {"idx": [7, 8]}}, model)
        sequential.save_all()
    entry = PageReader(tmp_path)[8]["seen"]
    assert list(entry) == ["backbone.conv1", "backbone.conv2"]
    assert torch.equal(torch.tensor(entry["backbone.conv2"]["output"]), outputs["seen"]["backbone.conv2"]["output"][1])


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            "backbone.con1",
            r"debugger 'seen': DigitNetwork has no layer 'backbone\.con1'; nearest names: backbone\.conv1",
        ),
        ("backbone.layer*", r"debugger 'seen': DigitNetwork has no module that matches 'backbone\.layer\*'; nearest"),
        ("re:attn", "debugger 'seen': DigitNetwork has no module that matches 're:attn'"),
        (nn.LSTM, "debugger 'seen': DigitNetwork has no module that matches LSTM"),
    ],
)
def test_what_matches_no_layer_is_an_error_when_it_is_made(selector, message):
    with pytest.raises(LayerNotFoundError, match=message):
        SequentialDebugger(config(selector), digit_network())


@pytest.mark.parametrize(
    ("selector", "shown"), [("neck*", "'neck*'"), (nn.LSTM, "LSTM"), (re.compile("neck"), "'re:neck'")]
)
def test_no_match_may_be_allowed(selector, shown):
    outputs, sequential = watched_call(digit_network(), config(selector, missing_ok=True))
    assert outputs == {"seen": {"error": f"the model has no layer {shown}"}}
    assert (sequential.forward_debuggers, sequential.failures) == ({}, {})


def test_an_expression_that_cannot_be_compiled_is_an_error():
    with pytest.raises(DebuggerConfigError, match=r"debugger 'seen': module selector 're:\('"):
        SequentialDebugger(config("re:("), digit_network())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, 64)
        self.decoder = self.encoder

    def forward(self, images):
        return self.encoder(images.flatten(1))


@pytest.mark.parametrize("selector", ["encoder", "decoder"])
def test_a_module_with_several_names_is_known_by_its_first(selector):
    outputs, sequential = watched_call(Tied(), config(selector))
    assert outputs["seen"]["layer_name"] == "encoder"
    assert sequential.aliases == {"encoder": ("decoder",)}
    assert list(sequential.forward_debuggers) == ["encoder"]


@pytest.mark.parametrize("selector", ["*coder", nn.Linear, "re:decoder"])
def test_a_pattern_that_matches_several_names_of_a_module_captures_it_once(selector):
    outputs, _ = watched_call(Tied(), config(selector))
    assert list(outputs["seen"]) == ["encoder"]


def same(one, other):
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def checkpointed(model):
    model.backbone = checkpoint_wrapper(model.backbone)
    return model


@pytest.mark.parametrize("wrap", [nn.DataParallel, checkpointed])
@pytest.mark.parametrize("selector", ["backbone.conv1", "backbone.conv1*", nn.Conv2d])
def test_wrappers_leave_no_trace(wrap, selector):
    plain, _ = watched_call(digit_network(), config(selector))
    wrapped, _ = watched_call(wrap(digit_network()), config(selector))
    assert same(wrapped, plain)


@pytest.mark.parametrize("name", ["module.backbone.conv1", "backbone.conv1"])
@pytest.mark.parametrize("through_wrapper", [True, False])
def test_a_data_parallel_model_may_be_called_either_way(name, through_wrapper):
    model = nn.DataParallel(digit_network())
    outputs, _ = watched_call(model, config(name), model if through_wrapper else model.module)
    assert outputs["seen"]["layer_name"] == "backbone.conv1"


class TestCompiled:
    """Inside ``torch.compile`` forward hooks are not called."""

    @pytest.fixture(autouse=True)
    def reset(self):
        torch.compiler.reset()

    def test_the_compiled_model_itself_is_seen_and_what_is_inside_says_why_not(self):
        compiled = torch.compile(digit_network(), backend="eager", fullgraph=True)
        outputs, sequential = watched_call(compiled, [*config("", "whole"), *config("backbone.conv1", "inside")])
        assert outputs["whole"]["output"].shape == (2, 10)
        assert "runs inside a module that torch.compile or torch.jit compiled" in outputs["inside"]["error"]
        assert sequential.failures == {("debugger 'inside' at layer 'backbone.conv1'", "LookupError"): 1}

    def test_a_compiled_part_is_seen_under_its_own_name(self):
        model = digit_network()
        model.backbone = torch.compile(model.backbone, backend="eager")
        outputs, sequential = watched_call(model, config("backbone*"))
        captures = outputs["seen"]
        assert captures["backbone"]["output"].shape == (2, 8, 4, 4)
        inside = [f"backbone.{name}" for name in ("conv1", "norm1", "act1", "conv2", "act2")]
        assert sorted(captures) == sorted(["backbone", *inside])
        assert all("torch.compile" in captures[name]["error"] for name in inside)
        assert sum(sequential.failures.values()) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("compiled_first", [False, True])
    def test_a_model_that_is_compiled_elsewhere_is_not_disturbed(self, compiled_first):
        model, (images, _) = digit_network().eval(), digits(2)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        if compiled_first:
            compiled(images)
        outputs, _ = watched_call(model, config("backbone.conv1"), compiled)
        assert "compiled path" in outputs["seen"]["error"]
        assert torch.equal(compiled(images), model(images))

    def test_a_model_compiled_in_place_says_why_nothing_is_seen(self):
        model = digit_network()
        model.compile(backend="eager")
        outputs, _ = watched_call(model, config("head"))
        assert "torch.compile" in outputs["seen"]["error"]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_scripted_model_says_why_nothing_is_seen():
    model = torch.jit.script(digit_network())
    outputs, _ = watched_call(model, [*config("", "whole"), *config("backbone.conv1", "inside")])
    assert all("torch.jit compiled" in slot["error"] for slot in outputs.values())


def fully_sharded(model):
    model.backbone = FullyShardedDataParallel(model.backbone, device_id=torch.device("cpu"))
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"))


def fully_sharded_in_place(model):
    mesh = init_device_mesh("cpu", (1,))
    fsdp.fully_shard(model.backbone, mesh=mesh)
    fsdp.fully_shard(model, mesh=mesh)
    return model


@pytest.mark.filterwarnings("ignore:FSDP is switching to use")
@pytest.mark.parametrize("wrap", [nn.parallel.DistributedDataParallel, fully_sharded, fully_sharded_in_place])
def test_distributed_wrappers_leave_no_trace(process_group, wrap):
    for selector in ("backbone.conv1", "re:backbone.conv.", nn.Conv2d):
        plain, _ = watched_call(digit_network(), config(selector))
        wrapped, sequential = watched_call(wrap(digit_network()), config(selector))
        assert same(wrapped, plain)
        assert sequential.failures == {}
