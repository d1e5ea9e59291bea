"""A run's page has all of its sessions: of every scope, and of ranks that say another thing."""

import json

import pytest
import torch
from click.testing import CliRunner

import stepscope
from debuggers.diagnosis.facts import Facts, ParameterFacts
from stepscope.cli import main
from stepscope.report_pages.stored_architecture import architecture_lines
from stepscope.report_pages.stored_contents import stored_contents


def train(run, *, steps=30, factor=1.0, lr=0.1):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with stepscope.watch(model, optimizer, run=run):
        for _ in range(steps):
            optimizer.zero_grad()
            inputs = torch.randn(8, 4)
            ((model(inputs) - inputs.sum(1, keepdim=True)).square().mean() * factor).backward()
            optimizer.step()


def page_of(folder, tmp_path):
    target = tmp_path / "page.html"
    done = CliRunner().invoke(main, ["report", str(folder), "--html", str(target)])
    assert done.exit_code == 0, done.output
    return target.read_text(encoding="utf-8")


def contents_of(folder):
    with stepscope.read_run(folder) as record:
        return stored_contents(record)


def test_each_scope_has_its_verdict_and_its_part_of_the_page(tmp_path):
    with stepscope.open_run(tmp_path / "gan", sinks=[]) as run:
        train(run.scoped("G"))
        train(run.scoped("D"), factor=float("nan"))

    assert [(one.title, one.state) for one in contents_of(tmp_path / "gan")] == [
        ("gan (D)", "bad"),
        ("gan (G)", "good"),
    ]
    page = page_of(tmp_path / "gan", tmp_path)
    assert page.index('href="#session-1"') < page.index('href="#session-2"') < page.index('id="session-1"')
    assert page.count("<h1>") == 3 and page.count('id="session-1-cause-1"') == 1


@pytest.mark.slow
@pytest.mark.parametrize(("factors", "titles"), [((1, 1), ["run"]), ((1, float("nan")), ["run", "run (rank 1)"])])
def test_a_rank_that_says_another_thing_has_its_own_part_with_its_own_evidence(tmp_path, monkeypatch, factors, titles):
    for rank, factor in enumerate(factors):
        monkeypatch.setenv("RANK", str(rank))
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=rank > 0) as run:
            train(run, factor=factor)

    contents = contents_of(tmp_path / "run")
    assert [one.title for one in contents] == titles
    # The first rank's own numbers are sound, but its weights part from the other's.
    assert [one.state for one in contents] == (["good"] if len(titles) == 1 else ["warn", "bad"])
    assert [bool(one.evidence.found("non_finite_loss")) for one in contents] == [False, True][: len(titles)]


def test_later_attempts_take_the_place_of_earlier_ones(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, factor=float("nan"), steps=10)
    with stepscope.open_run(tmp_path / "run", sinks=[], resume=True) as run:
        train(run)

    (content,) = contents_of(tmp_path / "run")
    assert content.evidence.facts.last_step == 39


def test_a_run_without_a_session_and_one_that_still_runs_say_so(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        run.flush_store()
        (content,) = contents_of(tmp_path / "run")
        assert content.state == "" and content.left_out[0] == "The training is running still."
    (content,) = contents_of(tmp_path / "run")
    assert content.notes == ()


@pytest.mark.slow
def test_two_runs_are_compared_scope_by_scope(tmp_path):
    for name, scopes in (("a", ("G", "D")), ("b", ("G", "E"))):
        with stepscope.open_run(tmp_path / name, sinks=[]) as run:
            for scope in scopes:
                train(run.scoped(scope), lr=0.1 if name == "a" else 0.05)

    told = CliRunner().invoke(main, ["report", str(tmp_path / "a"), str(tmp_path / "b")]).output
    assert "a (G) against" in told and "lr of group 0: 0.1 against 0.05" in told
    assert told.count(" against ") >= 2 and "a (D) against" not in told
    assert f"Only in {tmp_path / 'a'}: D." in told and f"Only in {tmp_path / 'b'}: E." in told


def test_a_page_names_the_causes_that_the_session_has_named(tmp_path):
    """An alert that the session withdrew by its end, of the total norm here, is no finding of the page."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=80.0)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.watch(model, optimizer, run=run) as session:
        for _ in range(30):
            optimizer.zero_grad()
            inputs = torch.randn(32, 8)
            torch.nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1)).backward()
            optimizer.step()

    (content,) = contents_of(tmp_path / "run")
    report = session.report()
    assert [cause.code for cause in content.causes] == [cause.code for cause in report.causes] != []
    stored, known = ({one.name for one in each.evidence.found("exploding_gradient")} for each in (content, report))
    assert stored == known != set()


def test_a_run_with_many_steps_has_a_page_of_a_few_kilobytes(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(30_000):
            run.scalar("loss", 1 / (step + 1), step=step)

    page = page_of(tmp_path / "run", tmp_path)
    assert len(page) < 50_000 and "step 29,999" in page


@pytest.mark.parametrize("given", ["digit", "digist*"])
def test_a_name_or_pattern_that_matches_no_run_is_told_the_nearest_in_one_line(tmp_path, given):
    for name in ("digits", "other"):
        stepscope.open_run(tmp_path / name, sinks=[]).close()

    done = CliRunner().invoke(main, ["report", str(tmp_path / given)])

    assert done.exit_code == 2 and len(done.output.splitlines()) == 1
    assert f"{given} is not a folder (nearest: {tmp_path / 'digits'}); expected a run's folder" in done.output


@pytest.mark.parametrize(("every", "told"), [(1, ""), (2, "individual parameters were measured at 10 of 20 steps")])
def test_a_session_without_a_report_says_how_much_it_measured_itself_and_of_what_model(tmp_path, every, told):
    config = stepscope.DebugConfig(schedule=stepscope.Schedule(every=every), max_overhead=None)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run)  # an earlier session, whose measured steps are its own
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(8, 1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with stepscope.watch(model, optimizer, run=run, config=config):
            for _ in range(20):
                optimizer.zero_grad()
                inputs = torch.randn(8, 4)
                (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
                optimizer.step()
            run.flush_store()
            printed = CliRunner().invoke(main, ["diagnose", str(tmp_path / "run")]).output
            line = CliRunner().invoke(main, ["diagnose", "--json", str(tmp_path / "run")]).output
            (content,) = contents_of(tmp_path / "run")
    assert content.text == ""
    assert content.architecture == [
        "49 parameters, 3 layers, nested 2 deep.", "Most parameters: 0 (82%), 1.1 (18%)."
    ]  # fmt: skip
    assert ("individual parameters" in content.verdict, "individual parameters" in printed) == (bool(told), bool(told))
    assert not told or f"Not checked: {told}" in " ".join(printed.split())
    assert (told in json.loads(line)["gaps"]) is bool(told)
    (ended,) = contents_of(tmp_path / "run")
    assert ended.architecture[0].startswith("49 parameters, 0.000187 MiB, 3 layers, nested 2 deep.")


@pytest.mark.parametrize(("parameters", "more"), [(999, ""), (1000, " or more")])
def test_a_model_with_more_parameters_than_facts_list_is_told_as_such(parameters, more):
    listed = tuple(ParameterFacts(name=f"{number}.weight", shape=(2, 3)) for number in range(parameters))
    told = list(architecture_lines(Facts(parameters=listed)))
    assert told[0] == f"{6 * parameters:,} parameters{more}."
    assert len(told) == (1 if more else 2)
    assert list(architecture_lines(Facts())) == []
