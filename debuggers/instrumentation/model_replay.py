"""Runs a model again without side effects on its weights and buffers, the generators, or other debuggers."""

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from tracker_adapters.values.tensors import is_sharded

from debuggers.errors import DebuggerConfigError
from debuggers.host_arrays.readable import is_freed
from debuggers.instrumentation.call_observers import is_compiled_in_place, unobserved
from debuggers.instrumentation.module_selection import WRAPPERS
from debuggers.instrumentation.random_state import preserved_random_state
from debuggers.torch_import import torch
from debuggers.torch_internals import dynamo
from debuggers.torch_internals.modules import COMPILED, is_compiled
from debuggers.utils import apply_tensor_op

Result = TypeVar("Result")
_WITH_FAST_PATH = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer, torch.nn.TransformerEncoder)
_one_replay_at_a_time = threading.RLock()
"""A replay puts tensors in the place of the model's, which two at once would mix up for good."""
_PARALLEL = {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule"}


def run_aside(model: torch.nn.Module, work: Callable[[], Result], *, gradients: bool) -> Result:
    """Returns what ``work`` returns, which may call the model and differentiate through it.

    Nothing of it stays, also after an exception. The model works on copies of its buffers, so that running statistics
    are never touched: not even their version changes, which a backward pass still to come would refuse. Parameters made
    in inference mode are copied too, because nothing can be differentiated through them. The generators of torch (host,
    and the CUDA devices that hold parameters), NumPy and Python are put back; generators and other state that a module
    keeps in plain attributes are not. Hooks of other debuggers do nothing meanwhile; those that users put on the model
    are called. What ``torch.compile`` made runs eagerly, and attention never takes its fast path, which calls no
    submodules.

    May be called from several threads: one replay runs at a time, in all the process. Forward passes of other threads
    go on meanwhile, with the same values and hooks; but what ``torch.compile`` made runs eagerly in them too, and the
    running statistics of one in training mode are lost.

    Args:
        model: The model, unwrapped; see ``plain_model``.
        work: Called without arguments, outside inference mode.
        gradients: Whether gradients are on, whatever the caller's mode.

    Raises:
        DebuggerConfigError: When the model computes together with other processes, which would wait for each other.
    """
    for name, module in model.named_modules():
        if _needs_other_processes(module):
            raise DebuggerConfigError(
                f"{name or type(model).__name__} ({type(module).__name__}) computes together with other processes, so "
                "one process alone cannot run the model again; expected a model that is whole in this process"
            )
    with (
        _one_replay_at_a_time,
        torch.inference_mode(False),
        torch.set_grad_enabled(gradients),
        preserved_random_state(model.parameters()),
        unobserved(model),  # other debuggers do not capture this run
        _without_compilation(),
        _without_fast_attention(model),
    ):
        return torch.func.functional_call(_Work(model, work), _stand_ins(model), ())  # type: ignore[no-any-return]


def plain_model(model: torch.nn.Module) -> torch.nn.Module:
    """Returns what DataParallel, DistributedDataParallel or ``torch.compile`` wraps; any other module as it is."""
    while True:
        if isinstance(model, WRAPPERS):
            model = model.module
        elif is_compiled(model):
            model = model.get_submodule(COMPILED)
        else:
            return model


def check_thread(model: torch.nn.Module) -> None:
    """Checks that a model may run aside in this thread.

    Raises:
        DebuggerConfigError: When it has compiled parts and this is not the main thread: threads that evaluate it at the
            same time may be compiling it, and what a replay puts in the place of its tensors makes that fail.
    """
    if threading.current_thread() is threading.main_thread():
        return
    for module in model.modules():
        if is_compiled(module) or is_compiled_in_place(module):
            raise DebuggerConfigError(
                "the model is compiled, and another thread may be compiling it now, which running it again would "
                "disturb; expected a call in the main thread, or a model that is not compiled"
            )


@contextmanager
def transparent_wrappers(model: torch.nn.Module) -> Iterator[None]:
    """Lets wrappers of data parallelism only pass calls on to what they wrap, without their collectives."""
    wrappers = []
    while isinstance(model, WRAPPERS):
        wrappers.append(model)
        model = model.module
    try:
        for wrapper in wrappers:
            wrapper.__dict__["forward"] = partial(_pass_on, wrapper)
        yield
    finally:
        for wrapper in wrappers:
            wrapper.__dict__.pop("forward", None)


def _pass_on(wrapper: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    return wrapper.module(*args, **kwargs)  # type: ignore[operator]


def replay_arguments(model: torch.nn.Module, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns copies of a datapoint's inputs as the model's positional and keyword arguments.

    A tuple or list holds positional arguments, and a mapping keyword arguments, unless ``forward`` does not take its
    keys but takes the whole mapping. Anything else is the only argument.

    Raises:
        DebuggerConfigError: For a mapping that ``forward`` takes in neither way.
    """
    with torch.no_grad():
        copies = apply_tensor_op(torch.clone, inputs)
    if isinstance(copies, (tuple, list)):
        return tuple(copies), {}
    if not isinstance(copies, Mapping):
        return (copies,), {}
    signature = inspect.signature(model.forward)
    if all(isinstance(key, str) for key in copies) and _binds(signature, **copies):
        return (), dict(copies)
    if _binds(signature, copies):
        return (copies,), {}
    raise DebuggerConfigError(
        f"the inputs have the keys {', '.join(map(repr, copies))}; expected arguments of "
        f"{type(model).__name__}.forward{signature}"
    )


def _binds(signature: inspect.Signature, *args: Any, **kwargs: Any) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


class _Work(torch.nn.Module):
    """Lets ``functional_call`` cover a backward pass too, in which activation checkpointing calls modules again."""

    def __init__(self, model: torch.nn.Module, work: Callable[[], Any]) -> None:
        super().__init__()
        self.model = model
        self.work = work

    def forward(self) -> Any:
        return self.work()


def _stand_ins(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        buffers = model.named_buffers()
        copies = {f"model.{name}": buffer.clone() for name, buffer in buffers if not is_freed(buffer)}
        for name, parameter in model.named_parameters():
            if parameter.is_inference():
                copies[f"model.{name}"] = parameter.clone()
    return copies


def _needs_other_processes(module: torch.nn.Module) -> bool:
    # By name: importing the class of sharded modules is slow.
    if any(cls.__name__ in _PARALLEL for cls in type(module).__mro__):
        return True
    if any(map(is_sharded, module.parameters(recurse=False))):
        return True
    synchronized = isinstance(module, torch.nn.SyncBatchNorm) and module.training
    distributed = torch.distributed
    return (
        synchronized
        and distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def _without_compilation() -> AbstractContextManager[Any]:
    # Nothing is compiled where this was never imported, and importing it takes a second.
    if not dynamo.is_imported():
        return nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]


class _Transparent(torch.overrides.TorchFunctionMode):
    """Changes nothing, but keeps torch from the fused kernels of attention, in this thread only."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _without_fast_attention(model: torch.nn.Module) -> AbstractContextManager[Any]:
    # A switch for the process, torch.backends.mha, would reach the forward passes of other threads.
    return _Transparent() if any(isinstance(module, _WITH_FAST_PATH) for module in model.modules()) else nullcontext()
