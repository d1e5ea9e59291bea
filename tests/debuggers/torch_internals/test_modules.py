"""What is expected of torch's modules; needs nothing but torch and the module that it is about."""

import copy
import pickle
import sys

import pytest
import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper, checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel

from debuggers.torch_internals import modules

NORMS = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)


class _Called:
    """Stands where ``torch.nn.Module.compile`` puts compiled code."""

    def __init__(self, module):
        self.module, self.calls = module, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return getattr(self.module, modules.PLAIN_CALL)(*args, **kwargs)

    def __reduce__(self):
        raise AssertionError("it was pickled or copied")


def test_tables_of_a_module_are_its_own_and_hold_what_is_registered():
    module = torch.nn.BatchNorm1d(2)
    module.child = module.twin = torch.nn.ReLU()
    module.register_parameter("nothing", None)

    assert list(modules.parameters_of(module)) == ["weight", "bias", "nothing"]
    assert modules.parameters_of(module)["weight"] is module.weight
    assert list(modules.buffers_of(module)) == ["running_mean", "running_var", "num_batches_tracked"]
    assert list(modules.children_of(module)) == ["child", "twin"]
    module._buffers["running_mean"] = torch.ones(2)
    assert modules.buffers_of(module) is module._buffers
    assert torch.equal(module.running_mean, torch.ones(2))


def test_a_parameter_leaves_its_table_when_it_is_taken_out():
    module = torch.nn.Linear(2, 2)
    modules.parameters_of(module).pop("bias")
    module.bias = torch.zeros(2)
    assert [name for name, _ in module.named_parameters()] == ["weight"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_of_a_scripted_module_can_be_looked_up():
    children = modules.children_of(torch.jit.script(torch.nn.Sequential(torch.nn.ReLU())))
    assert "0" in children
    assert list(children.keys()) == ["0"]
    assert [name for name, child in children.items() if child is not None] == ["0"]
    assert isinstance(children["0"], torch.jit.ScriptModule)


def test_norms_and_dropouts_have_these_bases():
    assert all(issubclass(kind, modules.BatchNorm) for kind in NORMS)
    assert issubclass(modules.BatchNorm, modules.RunningNorm)
    assert issubclass(torch.nn.InstanceNorm2d, modules.RunningNorm)
    assert not issubclass(torch.nn.InstanceNorm2d, modules.BatchNorm)
    assert not issubclass(torch.nn.LayerNorm, modules.RunningNorm)
    assert all(issubclass(kind, modules.Dropout) for kind in (torch.nn.Dropout, torch.nn.Dropout2d))


def test_what_stands_in_the_place_of_compiled_code_is_called_with_hooks_inside():
    module, order = torch.nn.Linear(2, 2), []
    module.register_forward_pre_hook(lambda *_: order.append("hook"))
    called = _Called(module)
    module.__dict__[modules.COMPILED_CALL] = called

    module(torch.ones(1, 2))

    assert called.calls == 1, "torch.nn.Module calls something else than what is in this place"
    assert order == ["hook"]


def test_what_stands_in_the_place_of_compiled_code_is_neither_copied_nor_pickled():
    module = torch.nn.Linear(2, 2)
    module.__dict__[modules.COMPILED_CALL] = _Called(module)

    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert getattr(made, modules.COMPILED_CALL) is None
        made(torch.ones(1, 2))


def test_compile_puts_its_code_in_that_place():
    module = torch.nn.Linear(2, 2)
    assert getattr(module, modules.COMPILED_CALL) is None
    module.compile(backend="eager")
    assert getattr(module, modules.COMPILED_CALL) is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_kept_out_of_scripts_does_not_hinder_them():
    class Unannotated(torch.nn.Module):
        def forward(self, x):
            return x

    modules.keep_out_of_scripts(modules.COMPILED_CALL)
    modules.keep_out_of_scripts(modules.COMPILED_CALL)
    module = Unannotated()
    module.__dict__[modules.COMPILED_CALL] = _Called(module)

    assert torch.jit.script(module)(torch.ones(2)).sum() == 2
    assert torch.jit._recursive.ignored_attributes.count(modules.COMPILED_CALL) == 1


def test_a_module_from_the_compiler_keeps_the_module_under_this_name():
    module = torch.nn.Linear(2, 2)
    compiled = torch.compile(module, backend="eager")

    assert modules.is_compiled(compiled)
    assert compiled.get_submodule(modules.COMPILED) is module
    assert not modules.is_compiled(module)


def test_other_wrappers_keep_modules_under_these_names():
    module = torch.nn.Linear(2, 2)
    wrapped = checkpoint_wrapper(module)

    assert isinstance(wrapped, CheckpointWrapper)
    (name,) = modules.children_of(wrapped)
    assert name in modules.WRAPPED
    from torch.distributed.fsdp.fully_sharded_data_parallel import FSDP_WRAPPED_MODULE

    assert FSDP_WRAPPED_MODULE in modules.WRAPPED
    assert callable(FullyShardedDataParallel)


def test_a_replica_for_another_device_says_that_it_is_one():
    module = torch.nn.Linear(2, 2)
    replica = module._replicate_for_data_parallel()

    assert modules.is_replica(replica)
    assert not modules.is_replica(module)
    assert not modules.is_replica(object())


def test_a_call_of_a_module_is_known_by_its_frame_and_has_these_variables():
    class Failing(torch.nn.Module):
        def forward(self, x, *, scale):
            raise RuntimeError("on purpose")

    module, x = Failing(), torch.ones(2)
    try:
        module(x, scale=3)
    except RuntimeError:
        frames = []
        place = sys.exc_info()[2]
        while place is not None:
            frames.append(place.tb_frame)
            place = place.tb_next
    (variables,) = [frame.f_locals for frame in frames if modules.is_call_of_module(frame)]
    assert variables["self"] is module
    assert variables["args"] == (x,)
    assert variables["kwargs"] == {"scale": 3}


def test_all_hooks_of_a_module_are_in_its_tables():
    def hook(*_args, **_kwargs):
        called.append(1)

    def fill(module):
        module.register_forward_pre_hook(hook, with_kwargs=True)
        module.register_forward_hook(hook, always_call=True)
        module.register_full_backward_pre_hook(hook)
        module.register_full_backward_hook(hook)
        return module

    called = []
    module, x = fill(torch.nn.Linear(2, 2)), torch.ones(1, 2, requires_grad=True)
    module(x).sum().backward()
    assert len(called) == 4
    for table in modules.hook_tables(module):
        table.clear()
    module(x).sum().backward()
    assert len(called) == 4, "torch keeps hooks of a module where hook_tables does not look"
