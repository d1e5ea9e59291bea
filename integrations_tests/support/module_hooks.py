"""What hangs on the modules of a model that is watched."""

_PER_MODULE = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def hook_count(model):
    """How many hooks the modules of a model have in all; observers of a module's calls count as one."""
    return sum(
        sum(len(getattr(module, name)) for name in _PER_MODULE)
        + (module.__dict__.get("_compiled_call_impl") is not None)
        for module in model.modules()
    )
