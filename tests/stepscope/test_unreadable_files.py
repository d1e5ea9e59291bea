"""A file that this machine cannot read now is counted as lost; it does not end a training."""

import os
import resource
from pathlib import Path

import stepscope


def test_a_run_goes_on_without_free_descriptors(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    run = stepscope.open_run(tmp_path / "run", sinks=[])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        run.file(tmp_path / "notes.txt", step=0)
        run.page(tmp_path / "notes.txt", step=0)
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    run.file(tmp_path / "notes.txt", step=1)
    assert run.close()
    assert (run.stats.stored, sum(run.stats.lost.values())) == (1, 2)


def test_a_file_whose_name_is_no_utf_8_is_kept(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xe9sultats.txt"))
    path.write_text("content")
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.file(path, step=0)
    with stepscope.read_run(tmp_path / "run") as record:
        (file,) = record.files()
    assert file.path.read_text() == "content"
