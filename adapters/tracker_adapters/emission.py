"""What all calls of an emitter share: scoped names, steps and the recorder."""

import time
import weakref
from collections.abc import Callable, Generator, Sequence
from functools import partial
from sys import getsizeof
from typing import Any, NoReturn, Self

import numpy.typing as npt

from tracker_adapters.artifacts import (
    Alert,
    Artifact,
    File,
    Page,
    Scalar,
)
from tracker_adapters.errors import ArtifactError, UnreadableFileError
from tracker_adapters.recording import Deferred, PendingArray, Recorder
from tracker_adapters.values.base import check_name, check_step, check_time
from tracker_adapters.values.name_sequences import NameSequences
from tracker_adapters.values.plain import as_path
from tracker_adapters.values.tensors import check_readable, is_device_tensor


class Emission:
    """The part of an emitter that knows no kinds; see ``Emitter``."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        defer: Callable[[Any], PendingArray] | None = None,
        scope: str = "",
        step: int | None = None,
        on_alert: Callable[[Alert], None] | None = None,
    ) -> None:
        """Makes an emitter; ``scoped`` and ``at`` are the usual ways to derive another.

        Args:
            recorder: Where artifacts go.
            defer: Copies a device tensor without synchronising; without it device tensors are refused.
            scope: Prefix of every name, ending in a slash, or empty.
            step: The step of calls that give none.
            on_alert: Shows alerts to the person at the terminal.
        """
        self._recorder, self._defer, self._on_alert = recorder, defer, on_alert
        self._scope, self._step = scope, step
        self._known_names: set[str] = set()
        self._owners: dict[str, weakref.ref[object]] = {}
        self._reached: dict[str, int] = {}
        self._name_sequences = NameSequences()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a run belongs to the process that opened it and cannot be pickled; open a run of its own in each process "
            "that emits, or return the values and emit them here"
        )

    def __deepcopy__(self, memo: object) -> Self:
        """Returns the emitter itself: a copy of a model emits into the same run."""
        return self

    def claim(self, owner: object) -> bool:
        """Takes the scope for a producer of series with fixed names, such as the session of a model.

        Returns:
            Whether no other producer has taken it; two would mix their series.
        """
        return self._owners.setdefault(self._scope, weakref.ref(owner))() is owner

    @property
    def reached(self) -> int:
        """The last step of the producer of series that was in this scope before; -1 where there was none."""
        return self._reached.get(self._scope, -1)

    def reach(self, step: int) -> None:
        """Says how far a producer of series with fixed names has come in this scope, so that the next one goes on."""
        self._reached[self._scope] = max(step, self.reached)

    def _put_file(
        self, cls: type[Page] | type[File], name: object, step: int | None, path: object, **fields: Any
    ) -> None:
        full, step = self._checked(cls.kind, name, step)
        source = as_path(f"{cls.kind} {full!r}", path)
        try:
            artifact = cls(name=full, path=source, step=step, **fields)
        except UnreadableFileError as error:  # of this machine: counted as lost
            self._put(Deferred(cls.kind, full, 0, partial(_fail, error)))
            return
        if (adopted := self._recorder.adopt(artifact)) is not None:
            self._put(adopted)

    def _checked(self, kind: str, name: object, step: int | None) -> tuple[str, int]:
        full = self._full_name(kind, name)
        return full, check_step(kind, full, self._bound_step(kind, full) if step is None else step)

    def _checked_block(
        self, kind: str, names: Sequence[str], step: int | None, time_ns: int | None
    ) -> tuple[tuple[str, ...], int, int]:
        full = self._name_sequences.full(kind, self._scope, names)
        if step is None:
            step = self._bound_step(f"{kind}s", full[:1])
        time_ns = time.time_ns() if time_ns is None else check_time(f"{kind}s", self._scope, time_ns)
        return full, check_step(f"{kind}s", self._scope, step), time_ns

    def _full_name(self, kind: str, name: object) -> str:
        checked = check_name(kind, name)
        return check_name(kind, self._scope + checked) if self._scope else checked

    def _bound_step(self, kind: str, name: object) -> int:
        if self._step is None:
            raise ArtifactError(f"{kind} {name!r}: no step given; pass step=… or emit through emitter.at(step)")
        return self._step

    def _deferred(self, what: str, tensor: Any) -> PendingArray:
        if self._defer is None:
            raise ArtifactError(
                f"{what}: got a tensor on {tensor.device}; this emitter takes host values only, such as tensor.cpu()"
            )
        return self._defer(tensor)

    def _put_device_scalar(self, name: str, tensor: Any, step: int, time_ns: int) -> None:
        what = f"scalar {name!r}"
        check_readable(what, tensor)
        if tensor.ndim != 0:
            raise ArtifactError(f"{what}: got shape {tuple(tensor.shape)}; expected a number or a 0-d tensor or array")
        self._put_later(
            Scalar.kind, name, lambda array: Scalar(name=name, value=float(array), step=step, time_ns=time_ns), tensor
        )

    def _put_later(self, kind: str, name: str, build: Callable[..., Artifact], *values: Any) -> None:
        """Queues what is built of arrays once all are on the host; each value is a device tensor or an array."""
        what = f"{kind} {name!r}"
        for value in filter(is_device_tensor, values):
            check_readable(what, value)
        arrays = [self._deferred(what, value) if is_device_tensor(value) else _OnHost(value) for value in values]
        parts = partial(_built_when_ready, arrays, build)
        nbytes = sum(array.nbytes for array in arrays)
        self._put(Deferred(kind, name, nbytes, lambda: build(*(array.resolve() for array in arrays)), parts))

    def _put(self, item: Artifact | Deferred) -> None:
        self._recorder.put(item, item.nbytes + getsizeof(item.name) + 256)


class _OnHost:
    """A pending array that has arrived."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values, self.nbytes = values, values.nbytes

    def resolve(self) -> npt.NDArray[Any]:
        return self._values


def _built_when_ready(
    arrays: Sequence[PendingArray], build: Callable[..., Artifact]
) -> Generator[bool, None, Artifact]:
    """Builds without waiting for a device where the pending arrays can tell whether they are there."""
    for array in arrays:
        ready = getattr(array, "ready", None)
        while ready is not None and not ready():
            yield False
    return build(*(array.resolve() for array in arrays))


def _fail(error: Exception) -> NoReturn:
    raise error
