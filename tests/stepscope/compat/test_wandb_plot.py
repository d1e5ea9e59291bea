"""W&B's charts, as the curves and tables that they are drawn from."""

import inspect

import numpy as np
import pytest

import stepscope
from stepscope.compat import wandb
from stepscope.compat.errors import UnsupportedCallError
from stepscope.compat.wandb import opening, plot

CALLS = ["bar", "confusion_matrix", "histogram", "line", "line_series", "pr_curve", "roc_curve", "scatter"]


@pytest.fixture
def logged(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_SINKS", "none")

    def log(**values):
        with wandb.init(dir=tmp_path) as run:
            run.log(values)
        return stepscope.read_run(run.stepscope_run.path)

    yield log
    assert opening.current() is None


@pytest.mark.parametrize("name", CALLS)
def test_each_call_has_the_arguments_of_w_and_b(name):
    real = pytest.importorskip("wandb").plot
    assert list(inspect.signature(getattr(plot, name)).parameters) == list(
        inspect.signature(getattr(real, name)).parameters
    )


def test_what_is_not_here_is_named():
    with pytest.raises(UnsupportedCallError, match="has no visualize: there are bar, confusion_matrix"):
        wandb.plot.visualize("x", 1)


def test_lines_are_curves_and_the_rest_are_tables(logged):
    table = wandb.Table(columns=["x", "y", "kind"], data=[[0, 1.0, "a"], [1, 2.0, "a"], [0, 3.0, "b"]])
    with logged(
        one=wandb.plot.line(table, "x", "y"),
        two=wandb.plot.line(table, "x", "y", stroke="kind"),
        series=wandb.plot.line_series([0, 1], [[1, 2], [3, 4]], keys=["p", "q"], xname="epoch"),
        points=wandb.plot.scatter(table, "x", "y"),
        bars=wandb.plot.bar(table, "kind", "y"),
        spread=wandb.plot.histogram(table, "y"),
        matrix=wandb.plot.confusion_matrix(preds=[0, 1, 1], y_true=[0, 0, 1], class_names=["cat", "dog"]),
    ) as record:
        assert record.curves("one")[0].y.tolist() == [1.0, 2.0, 3.0]
        assert record.curves("two/a")[0].y.tolist() == [1.0, 2.0]
        assert record.curves("series/q")[0].y.tolist() == [3.0, 4.0]
        assert record.curves("series/q")[0].x_label == "epoch"
        assert record.tables("points")[0].rows == ((0, 1.0), (1, 2.0), (0, 3.0))
        assert record.tables("bars")[0].columns == ("kind", "y")
        assert record.histograms("spread")[0].count == 3
        assert record.tables("matrix")[0].rows == (
            ("cat", "cat", 1), ("cat", "dog", 1), ("dog", "cat", 0), ("dog", "dog", 1)
        )  # fmt: skip


def areas(true, scores):
    """Of the receiver operating characteristic, by pairs of a true and a false one, and the average precision."""
    ahead = np.subtract.outer(scores[true], scores[~true])
    taken = [true[scores >= threshold] for threshold in np.unique(scores)[::-1]]
    recalls = np.array([0, *(one.sum() for one in taken)]) / true.sum()
    return ((ahead > 0) + (ahead == 0) / 2).mean(), (np.diff(recalls) * [one.mean() for one in taken]).sum()


def areas_of_scikit_learn(true, scores):
    from sklearn.metrics import average_precision_score, roc_auc_score  # takes seconds

    return roc_auc_score(true, scores), average_precision_score(true, scores)


@pytest.mark.parametrize("expected", [areas, pytest.param(areas_of_scikit_learn, marks=pytest.mark.slow)])
def test_curves_of_classifiers_have_their_areas(logged, expected):
    generator = np.random.default_rng(0)
    true = generator.integers(0, 3, 200)
    scores = np.round(generator.dirichlet(np.ones(3), 200), 2)  # with ties
    names = ["a", "b", "c"]
    with logged(roc=plot.roc_curve(true, scores, labels=names), pr=plot.pr_curve(true, scores, labels=names)) as record:
        for place, name in enumerate(names):
            roc, pr = record.curves(f"roc/{name}")[0], record.curves(f"pr/{name}")[0]
            found = np.trapezoid(roc.y, roc.x), (np.diff(pr.x) * pr.y[1:]).sum()
            assert found == pytest.approx(expected(true == place, scores[:, place]))


def test_wrong_arguments_are_named():
    with pytest.raises(stepscope.ArtifactError, match="either probs or preds"):
        plot.confusion_matrix(y_true=[1])
    with pytest.raises(stepscope.ArtifactError, match="holds 1 classes"):
        plot.roc_curve([1, 1], [[0.5], [0.5]])
    with pytest.raises(stepscope.ArtifactError, match=r"y_probas of shape \(2, 3\)"):
        plot.pr_curve([0, 1], np.ones((2, 3)))
    with pytest.raises(stepscope.ArtifactError, match="2 lines"):
        plot.line_series([0], [[1], [2]], keys=["a"])
