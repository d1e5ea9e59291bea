"""How a run says where it can be looked at."""

import logging

from tracker_adapters.testing import MemorySink

import stepscope


def test_a_run_says_how_to_look_at_it(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="stepscope")
    (tmp_path / "no run").mkdir()  # TensorBoard is shown this run alone where other folders lie beside it.
    sinks = ["tensorboard", {"type": "local", "path": tmp_path / "a"}, {"type": "local", "path": tmp_path / "b"}]
    with stepscope.open_run(tmp_path / "run", sinks=[*sinks, MemorySink()], delivery="thread") as run:
        found = run.look()
    assert list(found) == ["tensorboard", f"local:{tmp_path / 'a'}", f"local:{tmp_path / 'b'}"]
    assert found["tensorboard"].startswith("tensorboard --logdir_spec run:")
    assert str(tmp_path / "b") in found[f"local:{tmp_path / 'b'}"]
    assert f"run {tmp_path / 'run'}; look at it: " in caplog.text
