"""Whether what a sample puts out depends on the others of its batch, in eval mode."""

from typing import Any

from debuggers.probes.batch import Arguments, ProbedBatch, row_count
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op, tensors_in

ROWS = 8
"""The most rows that are looked at; each takes a backward pass."""
SHARE = 1e-5
"""A gradient or change of this share of the largest is rounding (stepscope's own choice)."""


def batch_mixing(batch: ProbedBatch, model: torch.nn.Module) -> dict[str, Any]:
    """The gradient of output i with respect to inputs j ≠ i; without floating inputs, the outputs of other batches.

    Rows are those of the first dimension. Batch norm in eval mode takes nothing from the batch.
    """
    model.eval()
    few = batch.rows(ROWS)
    inputs: list[torch.Tensor] = []

    def watched(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        rows = row_count((args, kwargs))

        def leaf(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point() or not tensor.ndim or tensor.shape[0] != rows:
                return tensor
            inputs.append(tensor.detach().requires_grad_())
            return inputs[-1]

        return apply_tensor_op(leaf, args), apply_tensor_op(leaf, kwargs)

    call = few.call(model, watched)
    rows = row_count(call.arguments)
    outputs = [one for one in _real(call.outputs) if one.is_floating_point() and one.ndim and one.shape[0] == rows]
    if rows < 2:
        raise ValueError(f"the batch has {rows} rows; expected at least 2")
    if not outputs:
        shapes = [tuple(one.shape) for one in tensors_in(call.outputs)]
        raise ValueError(f"no output has numbers in a row for each of the {rows} samples; their shapes are {shapes}")
    differentiable = [one for one in outputs if one.requires_grad]
    if inputs and differentiable:
        found = _by_gradients(inputs, differentiable, rows)
        if found is not None:
            return found
    return _by_outputs(few, model, [one.detach() for one in outputs], rows)


def _by_gradients(inputs: list[torch.Tensor], outputs: list[torch.Tensor], rows: int) -> dict[str, Any] | None:
    own, others, example = 0.0, 0.0, (0, 0)
    for row in range(rows):
        # Not the plain sum, which is constant for a softmax over the features.
        parts = [(one[row].flatten() * _weights(one[row])).sum() for one in outputs]
        gradients = torch.autograd.grad(sum(parts), inputs, retain_graph=True, allow_unused=True)  # type: ignore[arg-type]
        for gradient in gradients:
            if gradient is None:
                continue
            sizes = gradient.abs().flatten(1).amax(1) if gradient.ndim > 1 else gradient.abs()
            own = max(own, float(sizes[row]))
            sizes[row] = 0
            if float(sizes.max()) > others:
                others, example = float(sizes.max()), (row, int(sizes.argmax()))
    if max(own, others) == 0:
        return None
    mixed = others > SHARE * max(own, others)
    if mixed:
        row, other = example
        text = (
            f"in eval mode the output of sample {row} has a gradient of {others:.3g} with respect to the input of "
            f"sample {other} of its batch, and at most {own:.3g} with respect to its own"
        )
    else:
        text = f"in eval mode none of {rows} outputs has a gradient with respect to another sample's input"
    return {"mixed": mixed, "own": own, "others": others, "rows": rows, "evidence": text}


def _real(outputs: Any) -> list[torch.Tensor]:
    """The tensors of a nest, complex ones as pairs of real numbers."""
    return [torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in tensors_in(outputs)]


def _weights(row: torch.Tensor) -> torch.Tensor:
    return torch.linspace(1, 2, row.numel(), dtype=row.dtype, device=row.device)


@torch.no_grad()
def _by_outputs(batch: ProbedBatch, model: torch.nn.Module, outputs: list[torch.Tensor], rows: int) -> dict[str, Any]:
    kept = (rows + 1) // 2

    def replaced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        def first_again(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.ndim or tensor.shape[0] != rows:
                return tensor
            return torch.cat([tensor[:kept], tensor[:1].expand(rows - kept, *tensor.shape[1:])])

        return apply_tensor_op(first_again, args), apply_tensor_op(first_again, kwargs)

    changed = _real(batch.call(model, replaced).outputs)
    pairs = [
        (before[:kept], after[:kept])
        for before in outputs
        for after in [one for one in changed if one.shape == before.shape][:1]
    ]
    largest = max((float(before.abs().max()) for before, _ in pairs), default=0.0)
    change = max((float((before - after).abs().max()) for before, after in pairs), default=0.0)
    mixed = change > SHARE * largest
    verb = f"changes by up to {change:.3g}" if mixed else "does not change"
    text = f"in eval mode the output of the first {kept} samples {verb} when the other {rows - kept} are replaced"
    return {"mixed": mixed, "change": change, "largest": largest, "rows": rows, "evidence": text}
