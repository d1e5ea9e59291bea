"""Packages by the names of folders, and the state of real Git repositories."""

import importlib.metadata
import re
import subprocess
import sys

import pytest
from tracker_adapters.source import source_state
from tracker_adapters.source.source_state import Repository, packages

SECRET = "ghp_" + "a1B2" * 9


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "train.py").write_text("lr = 0.1\n")
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_packages_are_those_of_importlib():
    found = dict(line.split("==") for line in packages(sys.path))
    for name in ("torch", "numpy", "pytest"):
        assert found[name] == importlib.metadata.version(name)
    names = {re.sub(r"[-_.]+", "-", one.name).lower() for one in importlib.metadata.distributions()}
    assert names - found.keys() == set()


def test_changes_are_recorded_as_a_patch_that_git_takes(repository):
    (repository / "train.py").write_text("lr = 0.2\n")
    (repository / "new.py").write_text("")
    (repository / "below").mkdir()
    state, patch = Repository(repository / "below").state()
    assert state["branch"] == "main"
    assert state["changes"] == "1 file changed, 1 insertion(+), 1 deletion(-)"
    assert state["untracked_files"] == "1"
    assert "+lr = 0.2" in patch
    git(repository, "checkout", "train.py")
    (repository / "a.patch").write_text(patch)
    git(repository, "apply", "a.patch")
    assert (repository / "train.py").read_text() == "lr = 0.2\n"


def test_without_changes_and_outside_of_a_repository(repository, tmp_path_factory):
    assert Repository(repository).state() == ({"branch": "main", "changes": "none"}, "")
    assert Repository(tmp_path_factory.mktemp("plain")).state() == ({}, "")


def test_secrets_are_masked(repository):
    git(repository, "remote", "add", "origin", f"https://user:{SECRET}@host/x.git")
    (repository / "train.py").write_text(f'token = "{SECRET}"\n')
    state, patch = Repository(repository).state()
    assert SECRET not in patch + str(state)
    assert "***" in patch
    assert state["repository"] == "https://***@host/x.git"


def test_no_program_of_the_repository_runs_and_the_index_stays(repository):
    trap, ran = repository / "trap.sh", repository / "ran"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    trap.chmod(0o755)
    (repository / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    for name in ("filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "diff.evil.command", "diff.external",
                 "core.fsmonitor", "core.pager"):  # fmt: skip
        git(repository, "config", name, str(trap))
    (repository / "train.py").write_text("lr = 0.2\n")
    index = (repository / ".git" / "index").read_bytes()
    _, patch = Repository(repository).state()
    assert "+lr = 0.2" in patch
    assert not ran.exists()
    assert (repository / ".git" / "index").read_bytes() == index


def test_a_large_patch_is_cut_and_says_so(repository, monkeypatch):
    monkeypatch.setattr(source_state, "MOST_PATCH_BYTES", 2048)
    (repository / "train.py").write_text("x = 1\n" * 10_000)
    state, patch = Repository(repository).state()
    assert len(patch) == 2048
    assert state["changes"].endswith("only the first 2 KiB are recorded")


def test_git_that_takes_too_long_is_left(repository, monkeypatch):
    monkeypatch.setattr(source_state, "LIMIT_S", 0.0)
    assert Repository(repository).state() == ({}, "")
