"""A trace of a few steps by ``torch.profiler``, as a file that Chrome's and Perfetto's viewers open."""

from collections.abc import Callable
from pathlib import Path

from tracker_adapters.fork_safe import TemporaryFolder

from debuggers.errors import ProfilerError
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_profiling

MEDIA_TYPE = "application/gzip"
TRACE_NAME = "profiler_trace"
Keep = Callable[[Path, int], None]


def export_trace(profile: torch.profiler.profile, step: int, max_mb: float, keep: Keep) -> None:
    """Has the file of a recording that has ended kept; it is removed afterwards.

    Args:
        profile: The profiler.
        step: The last step of the recording.
        max_mb: A larger file, in units of 2**20 bytes, is not kept.
        keep: Gets the file and the step.

    Raises:
        ProfilerError: When the file is too large.
    """
    with TemporaryFolder("stepscope_trace_") as folder:
        path = Path(folder.path, f"trace_step_{step}.json.gz")
        profile.export_chrome_trace(str(path))
        size_mb = path.stat().st_size / 2**20
        if size_mb > max_mb:
            raise ProfilerError(
                f"the trace that ends at step {step} has {size_mb:,.3g} MiB and was not kept; expected at "
                f"most {max_mb:,.6g}: trace fewer steps, or pass a larger max_mb"
            )
        keep(path, step)


class StepTrace:
    """Records from its creation until ``steps`` steps have ended.

    torch waits for a CUDA device when a recording begins and ends. While it runs, a step takes longer.
    """

    def __init__(self, steps: int, max_mb: float, keep: Keep) -> None:
        """Begins to record.

        Args:
            steps: How many.
            max_mb: A larger file, in units of 2**20 bytes, is not kept.
            keep: Gets the file, which is removed afterwards, and the last step.

        Raises:
            ProfilerError: When a profiler of torch runs in this thread already: a second one cannot.
        """
        if is_profiling():
            raise ProfilerError("a profiler of torch runs in this thread; expected it to end before trace() is called")
        self._left, self._max_mb, self._keep = steps, max_mb, keep
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=activities, acc_events=True)
        self._profile.start()

    def end_step(self, step: int) -> bool:
        """Says that a step has ended; returns whether the recording has ended with it, and its file was kept.

        Raises:
            ProfilerError: When the file is too large.
        """
        self._left -= 1
        return self.close(step) if self._left <= 0 else False

    def close(self, step: int) -> bool:
        """Ends the recording, keeps the file of what it has seen so far, and returns True.

        Raises:
            ProfilerError: When the file is too large.
        """
        self._profile.stop()
        export_trace(self._profile, step, self._max_mb, self._keep)
        return True
