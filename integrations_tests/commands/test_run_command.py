"""``stepscope run``: scripts as people write them, in real processes, beside what Python makes of them alone."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from waiting import until

import stepscope

SCRIPT = """
import sys
import torch
import neighbour
from torch.utils.data import DataLoader

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))

    def forward(self, inputs):
        return self.body(inputs)

def main(steps, workers):
    torch.manual_seed(0)
    data = [(inputs, inputs[:3].argmax()) for inputs in torch.randn(16 * steps, 8)]
    loader = DataLoader(data, 16, num_workers=workers, multiprocessing_context="spawn" if workers else None)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print(repr(loss.item()), flush=True)

if __name__ == "__main__":
    print(sys.argv, __file__, neighbour.NAME, flush=True)
    main(int(sys.argv[1]), int(sys.argv[2]))
    exec(" ".join(sys.argv[3:]))
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "neighbour.py").write_text("NAME = 'beside the script'\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "names.py").write_text("NAME = 'relative'\n")
    (package / "train.py").write_text(
        "import sys\nfrom .names import NAME\nprint(NAME, sys.argv[1:], __name__)\nsys.exit(3)\n"
    )
    return tmp_path


def plain(place, *arguments):
    return done(place, *arguments)


def watched(place, *arguments):
    return done(place, "-m", "stepscope", "run", *arguments)


def done(place, *arguments):
    command = [sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.slow
def test_a_script_does_the_same_and_is_recorded_from_its_first_step(place):
    alone, both = plain(place, "train.py", "12", "1"), watched(place, "train.py", "12", "1")
    assert alone.returncode == both.returncode == 0, both.stderr
    assert both.stdout == alone.stdout
    assert both.stderr.startswith("stepscope: ")
    assert "Checked: the gradients of all 12 steps" in both.stderr
    with stepscope.read_run(place / "runs" / "train") as record:
        assert record.info.status == "finished"
        assert list(record.scalars("total_norm/gradients").steps) == list(range(12))
        assert record.info.environment["command"] == "train.py 12 1"


@pytest.mark.slow
def test_an_exception_looks_as_python_shows_it_and_the_run_has_failed(place):
    raising = ("train.py", "3", "0", "raise", "ValueError('the data are gone')")
    alone, both = plain(place, *raising), watched(place, *raising)
    assert alone.returncode == both.returncode == 1
    assert both.stderr.endswith(alone.stderr)
    with stepscope.read_run(place / "runs" / "train") as record:
        assert record.info.status == "failed"


def test_a_module_gets_its_arguments_and_its_exit_code_is_the_commands(place, warm_python):
    module = ["-m", "package.train", "--run", "mine", "--help"]
    both = warm_python.run_stepscope(["run", "--run", "out", *module], folder=place)
    assert both.returncode == 3
    assert both.stdout == "relative ['--run', 'mine', '--help'] __main__\n"
    with stepscope.read_run(place / "out") as record:
        assert record.info.status == "failed"


def test_a_script_that_forks_is_recorded_by_its_parent_alone(place, warm_python):
    forks = "import os;", "child = os.fork() or (main(4, 0), sys.exit(7));", "print(os.waitpid(child, 0)[1] >> 8);"
    both = warm_python.run_stepscope(["run", "train.py", "3", "0", *forks, "main(5, 0)"], folder=place)
    assert both.returncode == 0, both.stderr
    assert "\n7\n" in both.stdout  # the child's training, and its exit code
    assert len(both.stdout.splitlines()) == 1 + 3 + 4 + 1 + 5
    assert "forked" not in both.stderr
    assert both.stderr.count("Checked: the gradients") == 2  # of the parent's two trainings
    with stepscope.read_run(place / "runs" / "train") as record:
        assert record.info.status == "finished"
        names = [info.name for info in record.names() if info.name.endswith("total_norm/gradients")]
        assert sorted(len(record.scalars(name)) for name in names) == [3, 5]  # and not the child's 4


@pytest.mark.slow
def test_a_script_that_trains_nothing_is_said_and_one_that_is_missing_makes_no_run(place):
    both = watched(place, "train.py", "0", "0")
    assert both.returncode == 0
    assert "train.py took no step with an optimizer of torch: nothing was watched" in both.stderr
    missing = watched(place, "nothing.py")
    assert missing.returncode == 2
    assert missing.stderr == (
        "stepscope: there is no script 'nothing.py'; expected a file of Python, or a module's name behind -m\n"
    )
    unknown = watched(place, "-m", "nowhere.train")
    assert unknown.stderr == missing.stderr.replace("nothing.py", "nowhere.train")
    assert not (place / "runs" / "nothing").exists()
    assert not (place / "runs" / "train-2").exists()


@pytest.mark.slow
def test_ctrl_c_ends_it_as_it_ends_python(place):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    starting = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    arguments = ["stepscope", "run", "train.py", "100000", "0"]
    source = starting + f"sys.argv = {arguments[:1]!r} + {arguments[1:]!r}; from stepscope.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", source], cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        for _ in range(4):
            assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in errors
    until(lambda: stepscope.read_run(place / "runs" / "train").info.status == "failed")


@pytest.mark.slow
def test_ranks_that_torchrun_starts_write_a_store_each(place):
    (place / "ranks.py").write_text(
        textwrap.dedent(
            """
            import torch
            import torch.distributed as dist
            dist.init_process_group("gloo")
            torch.manual_seed(0)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
            dist.destroy_process_group()
            """
        )
    )
    both = done(
        place, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "stepscope", "run", "ranks.py",
    )  # fmt: skip
    assert both.returncode == 0, both.stderr
    with stepscope.read_run(place / "runs" / "ranks") as record:
        assert record.ranks == (0, 1)
        assert record.info.status == "finished"
        assert {len(record.scalars("total_norm/gradients", rank=rank).steps) for rank in (0, 1)} == {5}


@pytest.mark.slow
def test_ranks_that_accelerate_launches_do_the_same_and_write_a_store_each(place):
    pytest.importorskip("accelerate", reason="needs Accelerate: pip install 'stepscope[accelerate]'")
    (place / "prepared.py").write_text(
        textwrap.dedent(
            """
            import contextvars
            import gc
            import time
            import torch
            from accelerate import Accelerator

            def contexts():
                return sum(type(value) is contextvars.Context for value in gc.get_objects())

            contextvars.copy_context()  # the thread has one from now on
            before = contexts()
            accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 1)
            model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=0.01))
            torch.manual_seed(accelerator.process_index)
            for _ in range(8):
                with accelerator.accumulate(model):
                    loss = model(torch.randn(32, 4)).square().mean()
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
            print(f"{accelerator.process_index} of {accelerator.num_processes}: {loss.item()!r}\\n", end="", flush=True)
            # Gloo's thread holds what torch lent it for the last backward pass. To give that back at exit aborts.
            deadline = time.monotonic() + 20
            while contexts() > before and time.monotonic() < deadline:
                time.sleep(0.001)
            accelerator.end_training()
            """
        )
    )
    # What a machine without a GPU needs for torchrun's launcher: --cpu starts one process.
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1"]
    launch += ["--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]
    alone = done(place, *launch, "prepared.py")
    both = done(place, *launch, "--module", "stepscope", "run", "prepared.py")
    assert alone.returncode == both.returncode == 0, both.stderr
    assert sorted(both.stdout.split("\n")) == sorted(alone.stdout.split("\n"))
    assert "1 of 2: " in both.stdout
    with stepscope.read_run(place / "runs" / "prepared") as record:
        assert (list(record.ranks), record.info.status) == ([0, 1], "finished")
        for rank in (0, 1):
            assert record.scalars("total_norm/gradients", rank).steps.tolist() == [0, 1, 2, 3]  # of two batches each
