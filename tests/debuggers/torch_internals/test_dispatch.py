"""What is expected of torch's dispatch of operators; needs nothing but torch and the module that it is about."""

import subprocess
import sys

import pytest
import torch
from torch.overrides import TorchFunctionMode

from debuggers.torch_internals import dispatch


class _Seen(dispatch.OperatorMode):
    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(func)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_operators_below_autograd():
    x = torch.ones(2, requires_grad=True)
    with _Seen() as mode:
        x.exp().sum().backward()

    schemas = [dispatch.schema_of(operator) for operator in mode.operators]
    assert schemas[0].name == "aten::exp"
    assert [(argument.name, argument.alias_info) for argument in schemas[0].arguments] == [("self", None)]
    assert "aten::mul" in [schema.name for schema in schemas]


def test_a_schema_tells_what_is_written_to():
    with _Seen() as mode:
        torch.ones(2).add_(1)

    changed = [argument for argument in dispatch.schema_of(mode.operators[-1]).arguments if argument.alias_info]
    assert [(argument.name, argument.alias_info.is_write) for argument in changed] == [("self", True)]


def test_an_object_without_a_schema_has_none():
    assert dispatch.schema_of(object()) is None


def test_modes_are_counted_told_and_put_aside():
    outer, inner = _Seen(), _Seen()
    assert dispatch.number_of_modes() == 0
    with outer, inner:
        assert dispatch.number_of_modes() == 2
        assert list(dispatch.current_modes()) == [outer, inner]
        outer.operators.clear()
        with dispatch.without_modes():
            assert dispatch.number_of_modes() == 0
            torch.ones(2).exp()
        assert dispatch.number_of_modes() == 2
    assert outer.operators == inner.operators == []


def test_overrides_are_put_aside_modes_too():
    class Noting(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    seen = []
    own = torch.ones(2).as_subclass(Own)
    seen.clear()
    with Noting(), dispatch.without_overrides():
        torch.exp(own)
        torch.exp(torch.ones(2))
    assert seen == []
    torch.exp(own)
    assert torch.exp in seen


def test_modes_under_which_tensors_hold_no_values_have_these_names():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch._subclasses.functional_tensor import FunctionalTensorMode
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    kinds = (FakeTensorMode, FunctionalTensorMode, ProxyTorchDispatchMode)
    assert {kind.__name__ for kind in kinds} == dispatch.MODES_WITHOUT_VALUES
    with FakeTensorMode():
        assert [type(mode).__name__ for mode in dispatch.current_modes()] == ["FakeTensorMode"]


def test_all_operators_are_named():
    assert {"aten::log", "aten::add.Tensor", "aten::_softmax"} <= set(dispatch.operator_names())


def test_operators_are_called_from_files_with_this_in_their_path():
    assert dispatch.OPERATOR_FILES in sys.modules[type(torch.ops.aten.log.default).__module__].__file__


@pytest.mark.slow
def test_neither_a_mode_nor_looking_for_the_compiler_imports_it():
    code = (
        "import sys, torch\n"
        "from debuggers.torch_internals import dynamo\n"
        "from debuggers.torch_internals.dispatch import OperatorMode\n"
        "class Mode(OperatorMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        return func(*args, **(kwargs or {}))\n"
        "with Mode():\n"
        "    torch.ones(2).exp()\n"
        "assert not dynamo.is_imported()\n"
        "assert not [name for name in sys.modules if name.startswith('torch._dynamo')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
