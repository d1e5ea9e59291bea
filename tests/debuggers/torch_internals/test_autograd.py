"""What is expected of torch's autograd engine; needs nothing but torch and the module that it is about."""

import sys
import threading

import torch
from torch.utils.checkpoint import checkpoint

from debuggers.torch_internals import autograd


def test_a_backward_pass_has_a_number_that_is_known_in_its_own_thread_only():
    seen, elsewhere = [], []

    def look(gradient):
        seen.append(autograd.backward_pass_id())
        other = threading.Thread(target=lambda: elsewhere.append(autograd.backward_pass_id()))
        other.start()
        other.join()

    x = torch.ones(2, requires_grad=True)
    x.register_hook(look)
    for _ in range(2):
        x.sum().backward()

    assert autograd.backward_pass_id() == autograd.NO_BACKWARD_PASS == -1
    assert elsewhere == [-1, -1]
    assert -1 not in seen
    assert seen[0] != seen[1]


def test_a_forward_that_checkpointing_repeats_is_inside_of_the_backward_pass():
    seen = []

    def forward(x):
        seen.append(autograd.backward_pass_id())
        return x.exp()

    x = torch.ones(2, requires_grad=True)
    checkpoint(forward, x, use_reentrant=False).sum().backward()

    assert seen[0] == -1
    assert seen[1] != -1


def test_transformations_are_noticed_and_so_are_tensors_that_stand_for_others():
    seen = []

    def square(x):
        seen.append((autograd.transforms_are_active(), autograd.is_in_transform(x)))
        return (x * x).sum()

    torch.vmap(square)(torch.ones(3, 2))
    torch.func.grad(square)(torch.ones(2))

    assert seen == [(True, True), (True, True)]
    assert not autograd.transforms_are_active()
    assert not autograd.is_in_transform(torch.ones(2))


def test_gradients_are_switched_in_the_own_thread_alone():
    seen = []
    autograd.set_gradients(False)
    try:
        other = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        other.start()
        other.join()
        seen.append(torch.is_grad_enabled())
    finally:
        autograd.set_gradients(True)
    assert seen == [True, False]
    assert torch.is_grad_enabled()


def test_tracing_is_noticed():
    seen = []

    def double(x):
        seen.append(bool(autograd.is_tracing()))
        return x * 2

    torch.jit.trace(double, torch.ones(2), check_trace=False)

    assert seen == [True]
    assert not autograd.is_tracing()


def test_a_profiler_is_noticed():
    assert not autograd.is_profiling()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert autograd.is_profiling()
    assert not autograd.is_profiling()


def test_nodes_are_numbered_in_the_order_in_which_they_are_made_and_leaves_after_all():
    x = torch.ones(2, requires_grad=True)
    first = autograd.next_node_number()
    y = x.exp()
    z = y.log()

    assert autograd.node_number(y.grad_fn) == first
    assert autograd.node_number(z.grad_fn) == first + 1
    assert autograd.next_node_number() == first + 2
    leaf = y.grad_fn.next_functions[0][0]
    assert leaf.variable is x
    assert autograd.node_number(leaf) > 2**62


def test_the_node_whose_backward_runs_is_known():
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(autograd.node_number(autograd.current_node()))
            return gradient

    seen = []
    y = Identity.apply(torch.ones(2, requires_grad=True))
    y.sum().backward()

    assert seen == [autograd.node_number(y.grad_fn)]
    assert autograd.current_node() is None


def test_a_backward_pass_enters_the_engine_by_a_function_of_this_name():
    frames = []

    def look(gradient):
        frame = sys._getframe()
        while frame is not None:
            frames.append((frame.f_code.co_name, frame.f_code.co_filename))
            frame = frame.f_back

    for run in (lambda y, x: y.backward(), torch.autograd.grad):
        frames.clear()
        x = torch.ones(2, requires_grad=True)
        x.register_hook(look)
        run(x.sum(), x)
        assert any(name == autograd.ENGINE_FUNCTION and "torch" in file for name, file in frames)


def test_a_node_has_what_it_saved_and_whether_that_is_its_result():
    x = torch.tensor([0.5, 2.0], requires_grad=True)

    exponential = dict(autograd.saved_tensors(x.exp().grad_fn))
    logarithm = dict(autograd.saved_tensors(x.log().grad_fn))
    softmax = dict(autograd.saved_tensors(x.softmax(0).grad_fn))

    assert [autograd.is_result(name) for name in exponential] == [True]
    torch.testing.assert_close(next(iter(exponential.values())), x.detach().exp(), check_device=False)
    assert [autograd.is_result(name) for name in logarithm] == [False]
    torch.testing.assert_close(next(iter(logarithm.values())).detach(), x.detach())
    assert [autograd.is_result(name) for name in softmax] == [True]


def test_a_node_that_was_differentiated_has_nothing_left():
    y = torch.ones(2, requires_grad=True).exp()
    y.sum().backward()

    assert list(autograd.saved_tensors(y.grad_fn)) == []


def test_nodes_of_deviations_keep_their_correction():
    x = torch.ones(4, requires_grad=True)

    assert autograd.saved_correction(x.std(0).grad_fn) == 1
    assert autograd.saved_correction(x.var(correction=0).grad_fn) == 0
    assert autograd.saved_correction(x.mean().grad_fn) is None


def test_nodes_have_shape_and_dtype_of_their_outputs():
    half = torch.ones(2, 3, requires_grad=True).half()

    (metadata,) = autograd.output_metadata(half.grad_fn)

    assert tuple(metadata.shape) == (2, 3)
    assert metadata.dtype is torch.float16


def test_what_a_node_saved_is_found_by_its_name():
    node = torch.nn.functional.mse_loss(torch.rand(3, requires_grad=True), torch.rand(3), reduction="sum").grad_fn

    assert autograd.saved_value(node, "reduction") == 2
    assert autograd.saved_value(node, "weight") is None


def test_a_saved_tensor_is_found_where_no_hook_packed_it():
    outputs, targets = torch.rand(3, requires_grad=True) * 1, torch.rand(3)
    node = torch.nn.functional.mse_loss(outputs, targets).grad_fn

    assert torch.equal(autograd.saved_value(node, "target"), targets)
    indices = autograd.saved_value(outputs[torch.tensor([1, 0])].grad_fn, "indices")
    assert indices[0].tolist() == [1, 0]


def test_what_a_hook_packed_or_a_change_invalidated_is_not_unpacked():
    unpacked = []

    def unpack(packed):
        unpacked.append(packed)
        return packed

    outputs = torch.rand(3, requires_grad=True) * 1
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        packed = torch.nn.functional.mse_loss(outputs, torch.rand(3)).grad_fn
    targets = torch.rand(3)
    changed = torch.nn.functional.mse_loss(outputs, targets).grad_fn
    targets.zero_()

    assert autograd.saved_value(packed, "target") is None
    assert autograd.saved_value(packed, "reduction") == 1
    assert autograd.saved_value(changed, "target") is None
    assert not unpacked
