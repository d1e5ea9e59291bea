"""``SummaryWriter`` with the calls of torch's, recorded in a stepscope run.

::

    from stepscope.compat.tensorboard import SummaryWriter
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError

from stepscope.compat.errors import missing
from stepscope.compat.joined_runs import join_or_open
from stepscope.compat.media import film, host_array, picture, precision_and_recall, put_file, single, sound
from stepscope.runs.live_run import Run


class SummaryWriter:
    """Records what torch's ``SummaryWriter`` takes, under the same names and steps, in a run in ``log_dir``.

    The run is delivered to TensorBoard, with an event file in ``log_dir``, unless ``STEPSCOPE_SINKS`` says otherwise.
    Two writers of one folder share a run, and under ``stepscope run`` all record in its run; ``run`` is that run, for
    ``stepscope.watch(model, optimizer, run=writer.run)``. A value that torch's writer would refuse, such as a histogram
    with NaN, is recorded. A wrong argument raises ArtifactError at its line; a call that is not here raises
    UnsupportedCallError, which is an AttributeError.
    """

    def __init__(
        self,
        log_dir: str | Path | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        """Opens the run.

        Args:
            log_dir: Its folder; by default ``runs/<date>_<host><comment>``. If it holds a run, the new one gets a
                number.
            comment: Stands behind the default folder.
            purge_step: Continues the run in ``log_dir``, as a training that was resumed before this step.
            max_queue: Without effect: emitting waits for nothing.
            flush_secs: Without effect: the run is stored within 0.1 s.
            filename_suffix: Without effect: one event file belongs to a run.

        Raises:
            RunError: And what else ``open_run`` raises.
        """
        if not log_dir:
            log_dir = Path("runs") / f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self._joined = join_or_open(
            log_dir,
            scope=Path(log_dir).name or "writer",
            sinks=["tensorboard"],
            missing="local",
            resume=purge_step is not None,
        )
        self.run: Run = self._joined.run
        self._emitter: Emitter = self._joined.emitter

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Records a number, a tensor or an array of one element; always as float64. No step means step 0."""
        if getattr(scalar_value, "ndim", 0) or isinstance(scalar_value, (list, tuple)):
            scalar_value = single(tag, scalar_value)
        time_ns = None if walltime is None else int(walltime * 1e9)
        self._emitter.scalar(tag, scalar_value, step=_step(global_step), time_ns=time_ns)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Records numbers as ``main_tag/<key>``, in the same run."""
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Records a distribution, in bins of its own; NaN and infinities are counted."""
        self._emitter.histogram(tag, values, step=_step(global_step))

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Records the bins as a table: to put them into other bins would move values."""
        limits, counts = host_array(tag, bucket_limits).tolist(), host_array(tag, bucket_counts).tolist()
        rows = [[left, right, count] for left, right, count in zip([min, *limits], limits, counts, strict=False)]
        self._emitter.table(tag, ["left", "right", "count"], rows, step=_step(global_step))

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Records a picture: floating point from 0 to 1, or uint8; ``dataformats`` names its axes."""
        pixels = picture(f"image {tag!r}", host_array(f"image {tag!r}", img_tensor), dataformats)
        self._emitter.image(tag, pixels, layout="HWC", step=_step(global_step))

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Records pictures as one, in a grid of eight columns."""
        if isinstance(img_tensor, (list, tuple)):
            img_tensor = np.stack([host_array(f"image {tag!r}", one) for one in img_tensor])
        self.add_image(tag, img_tensor, global_step, dataformats=dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Records a figure of matplotlib, or several, as ``tag/0``, ``tag/1``; closes them if ``close`` is true."""
        figures = list(figure) if isinstance(figure, (list, tuple)) else [figure]
        for index, one in enumerate(figures):
            self._emitter.image(tag if len(figures) == 1 else f"{tag}/{index}", one, step=_step(global_step))
            if close:
                import matplotlib.pyplot as plt

                plt.close(one)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Records a film of shape (N, T, C, H, W) as a GIF file; those of a batch as ``tag/0``, ``tag/1``."""
        what = f"video {tag!r}"
        films = host_array(what, vid_tensor)
        if films.ndim != 5:
            raise ArtifactError(f"{what}: got shape {films.shape}; expected (N, T, C, H, W)")
        for index, frames in enumerate(films):
            name = tag if len(films) == 1 else f"{tag}/{index}"
            content = film(what, [picture(what, frame, "CHW") for frame in frames], fps)
            put_file(self._emitter, name, content, ".gif", "image/gif", _step(global_step))

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Records samples from -1 to 1 as a WAV file."""
        samples = host_array(f"audio {tag!r}", snd_tensor).squeeze()
        content = sound(f"audio {tag!r}", samples, sample_rate)
        put_file(self._emitter, tag, content, ".wav", "audio/wav", _step(global_step))

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Records a text, shown as Markdown."""
        self._emitter.text(tag, text_string, step=_step(global_step))

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Records precision over recall of a binary classifier as a curve; see ``precision_and_recall``."""
        what = f"curve {tag!r}"
        found = precision_and_recall(host_array(what, labels), host_array(what, predictions), num_thresholds, weights)
        self.add_pr_curve_raw(tag, (), (), (), (), *found, global_step=global_step)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Records precision over recall as a curve; the counts, from which both follow, are left out."""
        self._emitter.curve(tag, recall, precision, step=_step(global_step), x_label="recall", y_label="precision")

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Adds hyperparameters to the run's configuration, and records the metrics, in the run itself."""
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise ArtifactError("add_hparams expects two mappings, of hyperparameters and of metrics")
        self.run.describe(config=dict(hparam_dict))
        for name, value in metric_dict.items():
            self.add_scalar(name, value, global_step)

    def get_logdir(self) -> str:
        """Returns the folder that the writer was given; ``run.path`` has the number that the run may have got."""
        return self.log_dir

    def flush(self) -> None:
        """Commits everything to the run's store; delivery to trackers goes on by itself."""
        self.run.flush_store()

    def close(self) -> None:
        """Closes the run, if no other writer records in it; a second call does nothing."""
        self._joined.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._joined.leave(failed=exc_type is not None)

    def __getattr__(self, name: str) -> Any:
        raise missing("stepscope.compat.tensorboard.SummaryWriter", name, dir(type(self)), _INSTEAD.get(name, ""))


_INSTEAD = {
    "add_tensor": "add_histogram records the distribution of a tensor",
    "add_graph": "debuggers.ModelDiagnostics describes a model's architecture",
    "add_embedding": "run.table records vectors with their labels",
    "add_custom_scalars": "the TensorBoard sink writes a layout of its own",
}


def _step(global_step: Any) -> int:
    return 0 if global_step is None else int(global_step)


def __getattr__(name: str) -> Sequence[str]:
    raise missing(__name__, name, __all__)


__all__ = ["SummaryWriter"]
