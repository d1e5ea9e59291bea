"""W&B's ``Settings``, as far as they say something about a run."""

from typing import Any

from stepscope.compat.errors import UnsupportedCallError

_OF_INIT = {
    "entity": "entity", "mode": "mode", "project": "project", "root_dir": "dir", "run_group": "group",
    "run_id": "id", "run_job_type": "job_type", "run_name": "name", "run_notes": "notes", "run_tags": "tags",
    "resume": "resume", "reinit": "reinit",
}  # fmt: skip
_OF_SERVICE = frozenset(
    {
        "console", "disable_code", "disable_git", "init_timeout", "login_timeout", "quiet", "save_code", "show_errors",
        "show_info", "show_warnings", "silent", "start_method", "symlink", "_disable_meta", "_disable_stats",
        "_service_wait", "_save_requirements", "x_disable_meta", "x_disable_stats", "x_stats_sampling_interval",
        "x_service_wait", "x_save_requirements",
    }
)  # fmt: skip


class Settings:
    """Takes W&B's settings by their names; those about its own service have no effect.

    Attributes:
        of_init: The arguments of ``init`` that they stand for.
    """

    def __init__(self, **data: Any) -> None:
        """Raises UnsupportedCallError for a setting that is not known."""
        for name in data:
            if name not in _OF_INIT and name not in _OF_SERVICE:
                known = ", ".join(sorted(name for name in (*_OF_INIT, *_OF_SERVICE) if not name.startswith("_")))
                raise UnsupportedCallError(f"stepscope.compat.wandb.Settings has no {name}; there are {known}")
        self.of_init = {_OF_INIT[name]: value for name, value in data.items() if name in _OF_INIT}
