"""Hooks come off completely, and call their functions at the right moments."""

import copy
import pickle

import pytest
import torch
from module_hooks import hook_count
from torch import nn

from debuggers.instrumentation.hooks import Hooks


def hooked_model():
    model, seen, hooks = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), [], Hooks()
    hooks.add_forward((layer, lambda module, inputs, output: seen.append(type(module).__name__)) for layer in model)
    return model, seen, hooks


def test_functions_are_called_until_the_hooks_are_removed():
    model, seen, hooks = hooked_model()
    model(torch.ones(1, 2))
    assert seen == ["Linear", "ReLU"]
    hooks.remove()
    hooks.remove()
    model(torch.ones(1, 2))
    assert (len(seen), hook_count(model), len(hooks)) == (2, 0, 0)


def test_an_exception_in_the_block_removes_them_too():
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="stop"), Hooks() as hooks:
        hooks.add_forward([(model, print)])
        raise RuntimeError("stop")
    assert hook_count(model) == 0


def test_all_are_registered_or_none():
    model = nn.Linear(2, 2)
    with pytest.raises(TypeError):
        Hooks().add_forward([(model, print), (None, print)])
    assert hook_count(model) == 0


def test_the_hook_never_changes_the_output():
    layer = nn.Identity()
    Hooks().add_forward([(layer, lambda module, inputs, output: "something else")])
    assert layer(3) == 3


class TestAroundForward:
    """Two functions around a module's forward."""

    def hooked(self, layer, count=1):
        hooks, seen = Hooks(), []
        for name in "abc"[:count]:
            hooks.add_around_forward(
                layer,
                lambda module, args, kwargs, name=name: seen.append((f"before {name}", args, kwargs)),
                lambda module, name=name: seen.append(f"after {name}"),
            )
        return hooks, seen

    def test_they_see_the_arguments_and_the_end(self):
        layer = nn.Bilinear(2, 2, 1)
        hooks, seen = self.hooked(layer)
        first, second = torch.ones(1, 2), torch.zeros(1, 2)
        layer(first, input2=second)
        assert seen == [("before a", (first,), {"input2": second}), "after a"]
        hooks.remove()
        layer(first, second)
        assert (len(seen), hook_count(layer)) == (2, 0)

    def test_the_first_pair_is_the_outermost_and_all_end_before_other_hooks(self):
        layer = nn.Identity()
        seen = []
        Hooks().add_forward([(layer, lambda module, inputs, output: seen.append("hook"))])
        _, ends = self.hooked(layer, 3)
        Hooks().add_forward([(layer, lambda module, inputs, output: seen.append(list(ends)))])
        layer(1)
        order = [each if isinstance(each, str) else each[0] for each in ends]
        assert order == ["before a", "before b", "before c", "after c", "after b", "after a"]
        assert seen == ["hook", ends]


def hooked_optimizer():
    model, seen, hooks = nn.Linear(2, 1), [], Hooks()
    optimizer = torch.optim.Adam(model.parameters())
    hooks.add_optimizer_pre_step(optimizer, lambda it: seen.append(("before", it, len(it.state))))
    hooks.add_optimizer_post_step(optimizer, lambda it: seen.append(("after", it, len(it.state))))
    model(torch.ones(1, 2)).sum().backward()
    return optimizer, seen, hooks


def test_functions_run_before_and_after_an_optimizer_step_until_they_are_removed():
    optimizer, seen, hooks = hooked_optimizer()
    optimizer.step()
    assert seen == [("before", optimizer, 0), ("after", optimizer, 2)]
    hooks.remove()
    optimizer.step()
    assert (len(seen), len(hooks)) == (2, 0)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))])
def test_a_copied_optimizer_does_not_call_the_functions(duplicate):
    optimizer, seen, _ = hooked_optimizer()
    duplicate(optimizer).step()
    assert seen == []


def test_a_gradient_is_that_of_the_value_before_an_in_place_change():
    x, hooks, seen = torch.tensor([1.0, -2.0], requires_grad=True), Hooks(), []
    y = x * 3
    hooks.add_gradient(y, lambda gradient: seen.append(gradient.clone()))
    y.relu_().sum().backward()
    torch.testing.assert_close(seen, [torch.tensor([1.0, 0.0])])


def test_a_removed_gradient_hook_is_silent_when_the_graph_runs_again():
    x, hooks, seen = torch.ones(2, requires_grad=True), Hooks(), []
    y = x * 3
    hooks.add_gradient(y, seen.append)
    hooks.remove()
    y.sum().backward()
    assert seen == []
    assert not y._backward_hooks


def test_a_tensor_with_a_gradient_hook_is_saved_without_a_warning(recwarn):
    y = torch.ones(2, requires_grad=True) * 3
    Hooks().add_gradient(y, print)
    assert torch.equal(pickle.loads(pickle.dumps(y)), y)
    assert not recwarn.list


class TestGradientsReady:
    """A function that is called once in each step, when its gradients are there and the weights are the old."""

    def trained(self, kind, *, keyword, watched):
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        optimizer, seen, calls = kind(model.parameters(), lr=0.1), [], []
        if watched:
            Hooks().add_gradients_ready(
                optimizer, lambda _: seen.append((len(calls), model.weight.grad.clone(), model.weight.clone()))
            )

        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(1, 2)).square().sum()
            loss.backward()
            calls.append((model.weight.grad.clone(), model.weight.clone()))
            return loss

        begins, losses = [], []
        for _ in range(3):
            begins.append(len(calls))
            losses.append(optimizer.step(closure=closure) if keyword else optimizer.step(closure))
        return torch.stack(losses), model.weight, [(begin + 1, *calls[begin]) for begin in begins], seen

    @pytest.mark.parametrize("keyword", [True, False])
    @pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.LBFGS])
    def test_with_a_closure_it_is_called_after_its_first_call(self, kind, keyword):
        losses, weight, first_calls, seen = self.trained(kind, keyword=keyword, watched=True)
        assert len(seen) == 3
        for (count, gradient, old), (seen_count, seen_gradient, seen_weight) in zip(first_calls, seen, strict=True):
            assert count == seen_count
            assert torch.equal(gradient, seen_gradient)
            assert torch.equal(old, seen_weight)
        plain_losses, plain_weight, *_ = self.trained(kind, keyword=keyword, watched=False)
        assert torch.equal(losses, plain_losses)
        assert torch.equal(weight, plain_weight)

    def test_without_a_closure_it_is_called_first(self):
        model = nn.Linear(2, 1)
        optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), []
        Hooks().add_gradients_ready(optimizer, lambda it: seen.append((it, model.weight.clone())))
        model(torch.ones(1, 2)).sum().backward()
        before = model.weight.clone()
        optimizer.step()
        optimizer.step(None)
        assert [it for it, _ in seen] == [optimizer] * 2
        assert torch.equal(before, seen[0][1])

    def test_a_closure_that_raises_is_the_callers_business(self):
        optimizer, seen, _ = hooked_optimizer()
        Hooks().add_gradients_ready(optimizer, seen.append)

        def closure():
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            optimizer.step(closure)
        assert [each for each in seen if each is optimizer] == []


def test_what_was_removed_in_the_midst_of_an_event_is_not_called_any_more():
    model, seen, hooks = nn.Linear(2, 2), [], Hooks()

    def begin(*_):
        seen.append("begin")
        hooks.remove()

    for _ in range(2):
        hooks.add_before_forward(model, begin)
    model(torch.ones(1, 2))
    assert seen == ["begin"]
