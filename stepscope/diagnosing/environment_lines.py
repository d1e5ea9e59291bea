"""Where runs were trained, in words: what one says of itself, and what differs between two."""

from collections.abc import Mapping

from tracker_adapters.wording import counted

_MOST = 20
_PACKAGES = "packages"


def environment_line(environment: Mapping[str, str]) -> str:
    """Returns what is most needed to repeat a training, in one line; empty where no commit is known."""
    commit, changes = environment.get("commit", "")[:12], environment.get("changes", "")
    if not commit:
        return ""
    parts = [f"{name} {environment[name]}" for name in ("python", "torch") if name in environment]
    parts.append(f"commit {commit}{f' (changes: {changes})' if changes else ''}")
    if seed := environment.get("torch_seed"):
        parts.append(f"seed of torch {seed}")
    if found := environment.get(_PACKAGES):
        parts.append(counted(len(found.splitlines()), "packages"))
    return f"Where it ran: {', '.join(parts)}."


def environment_differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Returns what differs between the environments of two runs, in lines; packages one by one."""
    if not first or not second:
        return ["The environment is not recorded of both runs."]
    ours, theirs = _entries(first), _entries(second)
    names = [name for name in (ours | theirs) if ours.get(name) != theirs.get(name)]
    if (_PACKAGES in first) != (_PACKAGES in second):  # of those that one has not recorded nothing can be said
        names = [name for name in names if not name.startswith("package ")]
    if not names:
        return ["The environment is the same, as far as it is recorded."]
    lines = [f"  {name}: {ours.get(name, 'none')} against {theirs.get(name, 'none')}" for name in names[:_MOST]]
    rest = [f"  and {len(names) - _MOST} more"] if len(names) > _MOST else []
    return ["Environment that differs:", *lines, *rest]


def _entries(environment: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in environment.items() if name != _PACKAGES}
    for package in environment.get(_PACKAGES, "").splitlines():
        name, _, version = package.partition("==")
        found[f"package {name}"] = version
    return found
