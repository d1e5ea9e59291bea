"""What compiled code needs and numba lacks: arrays at addresses, hints to the cache, tickets, teams of threads."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic
from tracker_adapters.compilation import OPTIONS


@numba.njit(**OPTIONS)
def array_at(address: int, like: Any, shape: Any) -> Any:
    """The array of a shape, and of the type that the array ``like`` has, at an address."""
    return numba.carray(_pointer(address, like), shape)


@intrinsic
def _pointer(typing_context: Any, address: Any, like: Any) -> Any:
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


@intrinsic
def take_ticket(typing_context: Any, address: Any) -> Any:
    """Returns the int64 at an address and adds one to it, as one operation for all threads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counter = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", counter, ir.IntType(64)(1), "seq_cst")

    return types.int64(types.int64), generate


@intrinsic
def run_in_team(typing_context: Any, team: Any, function: Any, argument: Any, size: Any) -> Any:
    """Calls a function, ``void (int64)``, in ``size`` threads at the same time, and waits for all.

    All arguments are int64. The team is the address of OpenMP's ``GOMP_parallel``, whose C type is
    ``void (void (*function)(void *), void *argument, unsigned size, unsigned flags)``.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        team, function, argument, size = arguments
        address, number = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address, address, number, number])
        start_team = builder.inttoptr(team, kind.as_pointer())
        builder.call(start_team, [function, argument, builder.trunc(size, number), number(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate
