"""Names the operators of a loss that may have produced NaN or infinities, from its autograd graph."""

import math
from typing import Any

from debuggers.first_nan.operator_kinds import operator_of_node, plain_name, words
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number, output_metadata, saved_correction

LIMITED = words(
    "acos acosh asin atan2 atanh batch_norm binary_cross_entropy cdist cosh ctc_loss cumprod digamma div erfinv exp "
    "exp2 expm1 fmod hypot kl_div lgamma linalg_cholesky_ex linalg_cross linalg_det linalg_eigh linalg_inv_ex "
    "linalg_lstsq linalg_lu_factor_ex linalg_pinv linalg_qr linalg_slogdet linalg_solve_ex linalg_solve_triangular "
    "linalg_svd linalg_vector_norm log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logit logsumexp "
    "mvlgamma native_batch_norm native_group_norm native_layer_norm nll_loss nll_loss2d norm poisson_nll_loss "
    "polygamma pow prod reciprocal remainder renorm rsqrt scaled_dot_product_attention sinc sinh softmax "
    "special_log_ndtr special_ndtri special_xlog1py sqrt std std_mean tan xlogy"
)
"""Operators that produce NaN or infinities from ordinary finite arguments: outside of the domain or range, where no
derivative exists, or in a row that is masked completely."""
_OVERFLOWING = words("addbmm addmm addmv baddbmm bmm convolution cumsum dot linear mean mm mse_loss mul mv sum to_copy")
"""Operators that are the first to overflow in a dtype with a narrow range, such as float16."""
_COUNTING = {"mean": 0, "std": 1, "var": 1, "std_mean": 1, "var_mean": 1}
"""Reductions, with the largest number of values for which they are 0 / 0."""


def loss_candidates(loss: torch.Tensor, first_node: int) -> list[str]:
    """Returns the operators of a loss that may have produced NaN or infinities, in the order in which they ran.

    If some certainly did, such as a mean over no values, only they are returned. Otherwise, they are those with a
    limited domain or range, and in float16 those that can overflow.

    Args:
        loss: With its graph, whose saved tensors may be freed.
        first_node: The number of the first autograd node after the model's; 0 if unknown: then nothing is returned.
    """
    if loss.grad_fn is None or not first_node:
        return []
    named = [(node, operator_of_node(node.name())) for node in nodes_of(loss.grad_fn, first_node)]
    certain = [name for node, name in named if _is_over_too_few(node, plain_name(name))]
    possible = [name for node, name in named if _is_risky(node, plain_name(name))]
    return list(dict.fromkeys(certain or possible))


def nodes_of(root: Any, first_node: int = 0) -> list[Any]:
    """Returns the nodes of a graph from ``first_node`` on, without leaves, in the order of their creation."""
    waiting, numbers = [root], {}
    while waiting:
        node = waiting.pop()
        number = node_number(node)
        if node in numbers or number < first_node or hasattr(node, "variable"):
            continue
        numbers[node] = number
        waiting += [following for following, _ in node.next_functions if following is not None]
    return sorted(numbers, key=numbers.__getitem__)


def _is_risky(node: Any, operator: str) -> bool:
    if operator in LIMITED:
        return True
    outputs = output_metadata(node)
    return operator in _OVERFLOWING and bool(outputs) and outputs[0].dtype == torch.float16


def _is_over_too_few(node: Any, operator: str) -> bool:
    """Whether an operator reduced so few values that its result is 0 / 0."""
    outputs, taken = output_metadata(node), node.next_functions[:1]
    if operator not in _COUNTING or not outputs or not taken or taken[0][0] is None:
        return False
    source, position = taken[0]
    variable = getattr(source, "variable", None)
    inputs = [variable] if variable is not None else output_metadata(source)[position : position + 1]
    results = math.prod(outputs[0].shape)
    if not inputs or not results:
        return False
    correction = saved_correction(node)
    limit = _COUNTING[operator] if correction is None else int(correction)
    return bool(math.prod(inputs[0].shape) // results <= limit)
