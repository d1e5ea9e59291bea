"""What compiled code needs and numba lacks: pointers from addresses, and hints to the cache.

numba's cache notices no change of this file: who changes it empties the ``__pycache__`` beside it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic


@intrinsic
def pointer(typing_context: Any, address: Any, like: Any) -> Any:
    """An address as a pointer to elements of the type that the array ``like`` has."""
    signature = types.CPointer(like.dtype)(address, like)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return signature, generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Asks for the cache line at an address, which need not be valid."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(32)
        line = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [line, number(0), number(3), number(1)])  # to be read, into all caches, as data
        return context.get_dummy_value()

    return types.void(types.int64), generate
