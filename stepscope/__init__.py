"""stepscope: see what happens inside a PyTorch training run, in the tracker you already use."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker_adapters.last_resort import add_last_resort
from tracker_adapters.names_on_demand import names_on_demand

from stepscope.shadowed_packages import check_parts

if TYPE_CHECKING:
    from tracker_adapters.errors import (
        ArtifactError,
        DamagedError,
        DeliveryError,
        MissingPackageError,
        NotARunError,
        RunBusyError,
        RunError,
        RunExistsError,
        SinkConfigError,
        StepscopeError,
        UnsafeFileError,
    )
    from tracker_adapters.store.reading.record import RunRecord

    from debuggers.errors import FindingError
    from debuggers.pictures.terminal import TerminalVisualizer
    from debuggers.pictures.visualizer import VisualizationConfig, Visualizer
    from stepscope.errors import ConfigError, SessionError
    from stepscope.export import ExportError, export_runs
    from stepscope.importing import ImportingError, import_runs
    from stepscope.query import QueryError, query_runs
    from stepscope.ranks.merged import MergedRanks
    from stepscope.runs.opening import Run, RunStats, SinkStats, open_run, read_run
    from stepscope.runs.places import fetch_run
    from stepscope.sessions.config import DebugConfig
    from stepscope.sessions.report import DebugReport
    from stepscope.sessions.schedule import Schedule
    from stepscope.sessions.session import DebugSession
    from stepscope.sessions.watching import debug_session, watch
    from stepscope.sync import sync_runs
    from stepscope.viewer.export import ExportedPage, export_page
    from stepscope.viewer.outputs.display import OutputsError, display_debug_outputs

__all__ = [
    "ArtifactError",
    "ConfigError",
    "DamagedError",
    "DebugConfig",
    "DebugReport",
    "DebugSession",
    "DeliveryError",
    "ExportError",
    "ExportedPage",
    "FindingError",
    "ImportingError",
    "MergedRanks",
    "MissingPackageError",
    "NotARunError",
    "OutputsError",
    "QueryError",
    "Run",
    "RunBusyError",
    "RunError",
    "RunExistsError",
    "RunRecord",
    "RunStats",
    "Schedule",
    "SessionError",
    "SinkConfigError",
    "SinkStats",
    "StepscopeError",
    "TerminalVisualizer",
    "UnsafeFileError",
    "VisualizationConfig",
    "Visualizer",
    "debug_session",
    "display_debug_outputs",
    "export_page",
    "export_runs",
    "fetch_run",
    "import_runs",
    "open_run",
    "query_runs",
    "read_run",
    "sync_runs",
    "watch",
]
# They take long to import, or need packages, such as torch, that whoever reads runs need not have.
_LAZY = {
    "ArtifactError": "tracker_adapters.errors",
    "ConfigError": "stepscope.errors",
    "DamagedError": "tracker_adapters.errors",
    "DebugConfig": "stepscope.sessions.config",
    "DebugReport": "stepscope.sessions.report",
    "DebugSession": "stepscope.sessions.session",
    "DeliveryError": "tracker_adapters.errors",
    "ExportError": "stepscope.export",
    "ExportedPage": "stepscope.viewer.export",
    "FindingError": "debuggers.errors",
    "ImportingError": "stepscope.importing",
    "MergedRanks": "stepscope.ranks.merged",
    "MissingPackageError": "tracker_adapters.errors",
    "NotARunError": "tracker_adapters.errors",
    "OutputsError": "stepscope.viewer.outputs.display",
    "QueryError": "stepscope.query",
    "Run": "stepscope.runs.opening",
    "RunBusyError": "tracker_adapters.errors",
    "RunError": "tracker_adapters.errors",
    "RunExistsError": "tracker_adapters.errors",
    "RunRecord": "tracker_adapters.store.reading.record",
    "RunStats": "stepscope.runs.opening",
    "Schedule": "stepscope.sessions.schedule",
    "SessionError": "stepscope.errors",
    "SinkConfigError": "tracker_adapters.errors",
    "SinkStats": "stepscope.runs.opening",
    "StepscopeError": "tracker_adapters.errors",
    "TerminalVisualizer": "debuggers.pictures.terminal",
    "UnsafeFileError": "tracker_adapters.errors",
    "VisualizationConfig": "debuggers.pictures.visualizer",
    "Visualizer": "debuggers.pictures.visualizer",
    "debug_session": "stepscope.sessions.watching",
    "display_debug_outputs": "stepscope.viewer.outputs.display",
    "export_page": "stepscope.viewer.export",
    "export_runs": "stepscope.export",
    "fetch_run": "stepscope.runs.places",
    "import_runs": "stepscope.importing",
    "open_run": "stepscope.runs.opening",
    "query_runs": "stepscope.query",
    "read_run": "stepscope.runs.opening",
    "sync_runs": "stepscope.sync",
    "watch": "stepscope.sessions.watching",
}

_on_demand, _names = names_on_demand(__name__, _LAZY)
add_last_resort(__name__)
check_parts(Path(__file__).parent.parent)


def __getattr__(name: str) -> Any:
    """Imports the rest when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("stepscope")
    return _on_demand(name)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
