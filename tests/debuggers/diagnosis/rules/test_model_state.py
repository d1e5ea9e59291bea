"""Modes and frozen weights that are on purpose or by mistake, and norms that do not follow."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_evidence import STEPS, of_roles
from msgspec.structs import replace as with_fields
from torch import nn

import stepscope
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series
from debuggers.observed_training.model_facts import flagged_modules


@pytest.mark.parametrize(("second", "mean", "last", "is_one"), [
    (0.34, 0.0, 0.8, True), (0.37, 0.0, 0.8, False), (0.25, 0.0, 0.8, False), (0.3, 0.05, 0.8, False),
    (0.3, 0.0, 0.6, False),
])  # fmt: skip
def test_frozen_tables_of_one_deviation_were_drawn_and_never_trained_where_little_is_learnt(second, mean, last, is_one):
    """Of 512 elements a deviation is known to within 9 %, and a mean to within 0.13 of it, by three errors.

    Vectors of length 1 in 16 dimensions have a deviation of 0.25, whoever made them.
    """
    first = 0.25 if second == 0.25 else 0.29
    tables = [ParameterFacts(name=f"{name}.weight", shape=(90, 16), std=std, mean=shift, role="frozen")
              for name, std, shift in (("users", first, 0.0), ("items", second, mean))]  # fmt: skip
    layers = tuple(LayerFacts(name=name, kind="Embedding") for name in ("users", "items"))
    facts = Facts(steps=200, last_step=199, layers=layers,
                  parameters=(*tables, ParameterFacts(name="head.weight", shape=(8, 32), std=0.1)))  # fmt: skip
    loss = Series(np.arange(200), np.geomspace(1.0, last, 200))
    causes = [cause.code for cause in diagnose(Evidence(series={"loss": loss}, facts=facts))]
    assert ("frozen_parameters" in causes) == is_one


@pytest.mark.parametrize(
    ("roles", "std", "falls_to", "is_one"),
    [
        (("frozen", "norm", "frozen", "norm"), 1.0, 0.6, True),
        (("frozen", "norm", "frozen", "norm"), 2.0, 0.6, False),
        (("frozen", "norm", "trained"), 1.0, 0.6, False),
        (("frozen", "norm", "frozen", "norm"), 1.0, 0.3, False),
    ],
)
def test_norms_alone_leave_a_model_of_random_projections(roles, std, falls_to, is_one):
    codes = [cause.code for cause in diagnose(of_roles(*roles, std=std, falls_to=falls_to))]

    assert ("frozen_parameters" in codes) == is_one


@pytest.mark.parametrize(("until", "is_one"), [(101, False), (99, True)])
def test_what_had_gradients_until_late_was_frozen_behind_its_training(until, is_one):
    evidence = of_roles("frozen", "frozen", "trained", falls_to=0.99)
    known = Series(np.arange(until), np.ones(until))
    tensors = {"gradient_rms": {f"{place}.weight": known for place in range(2)}}
    found = replace(evidence, tensors=tensors, facts=with_fields(evidence.facts, last_step=199))

    assert ("frozen_parameters" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("update", "is_one"), [(0.0, True), (1e-4, False)])
def test_what_a_rate_of_zero_holds_still_is_frozen_though_it_has_gradients(update, is_one):
    evidence = of_roles("frozen", "frozen", "trained", falls_to=0.99)
    names, steps = [f"{place}.weight" for place in range(2)], np.arange(200)
    tensors = {
        "gradient_rms": {name: Series(steps, np.ones(200)) for name in names},
        "parameter_update_ratio": {name: Series(steps, np.full(200, update)) for name in names},
    }
    found = diagnose(replace(evidence, tensors=tensors, facts=with_fields(evidence.facts, last_step=199)))
    causes = [cause for cause in found if cause.code == "frozen_parameters"]

    assert ["learning rate above 0" in cause.advice for cause in causes] == [True] * is_one


@pytest.mark.parametrize(("ratio", "first"), [(5e-3, "frozen_parameters"), (5e-6, "learning_rate_too_low")])
def test_a_body_that_is_frozen_says_little_where_the_others_stand_still_too(ratio, first):
    evidence = of_roles("frozen", "frozen", "trained", falls_to=0.99)
    known = {"update_ratio": np.full(200, ratio), "total_norm/gradients": np.ones(200)}
    series = {**evidence.series, **{name: Series(np.arange(200), values) for name, values in known.items()}}

    assert diagnose(replace(evidence, series=series))[0].code == first


@pytest.mark.parametrize("in_parts", [False, True])
def test_parts_that_another_session_has_trained_are_frozen_in_turn(in_parts):
    evidence = of_roles("frozen", "frozen", "trained", falls_to=0.99)
    causes = diagnose(replace(evidence, facts=with_fields(evidence.facts, trained_in_parts=in_parts)))

    assert ("frozen_parameters" in [cause.code for cause in causes]) == (not in_parts)


@pytest.mark.parametrize(("last", "is_one"), [(3, True), (40, False)])
def test_a_model_whose_gradients_have_ended_was_frozen_for_good(last, is_one):
    """A critic is frozen for its generator's step, also at the end of a sound training."""
    steps, given = np.arange(STEPS), np.arange(last)
    tensors = {
        "output_std": {"fc": Series(steps, np.ones(STEPS))},
        "gradient_rms": {"fc.weight": Series(given, given + 1.0)},
    }
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), std=0.2, role="frozen")
    facts = Facts(steps=STEPS, parameters=(weight,), trained_with_others=True)
    causes = diagnose(Evidence(tensors=tensors, facts=facts))
    assert [cause.code for cause in causes] == ["frozen_parameters"] * is_one


@pytest.mark.parametrize(("spread", "is_one"), [((3 * 12) ** -0.5, True), (0.4, False)])
def test_a_frozen_recurrence_that_nothing_trained_is_told_by_its_spread(spread, is_one):
    names = {
        "code.weight": ((3, 4), 1.0),
        "mix.weight_ih_l0": ((36, 4), spread),
        "mix.weight_hh_l0": ((36, 12), spread),
    }
    frozen = tuple(
        ParameterFacts(name=name, shape=shape, std=std, role="frozen") for name, (shape, std) in names.items()
    )
    head = ParameterFacts(name="head.weight", shape=(2, 12), std=0.2)
    layers = tuple(LayerFacts(name=name, kind=kind) for name, kind in (("code", "Embedding"), ("mix", "GRU")))
    loss = LossFacts(kind="cross_entropy", reduction="mean")
    facts = Facts(steps=120, parameters=(*frozen, head), layers=layers, loss=loss)
    falling = Series(np.arange(120), np.linspace(0.7, 0.42, 120))
    causes = diagnose(Evidence(series={"loss": falling}, facts=facts))
    assert ("frozen_parameters" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("times", "is_one"), [(1.05, True), (1.3, False)])
def test_frozen_weights_with_the_spread_of_xavier_are_fresh(times, is_one):
    """As all those of ``torch.nn.Transformer``; the deviation of linear layers' own would be half of it."""
    body = ParameterFacts(name="body.weight", shape=(24, 72), std=times * (2 / 96) ** 0.5, role="frozen")
    head = ParameterFacts(name="head.weight", shape=(2, 12), std=0.2)
    facts = Facts(steps=120, parameters=(body, head), loss=LossFacts(kind="cross_entropy", reduction="mean"))
    falling = Series(np.arange(120), np.linspace(0.7, 0.42, 120))
    causes = diagnose(Evidence(series={"loss": falling}, facts=facts))
    assert ("frozen_parameters" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("role", "first"), [("frozen", "frozen_parameters"), ("trained", "learning_rate_too_high")])
def test_a_head_on_features_that_nothing_trained_has_to_grow_far(role, first):
    body = ParameterFacts(name="body.weight", shape=(12, 10), std=30**-0.5, role=role)
    head = ParameterFacts(name="head.weight", shape=(1, 12), std=0.16)
    series = {
        "loss": np.concatenate([[2.0, 2.0, 2.0], np.geomspace(6.0, 1.2, 117)]),
        "update_ratio": np.geomspace(0.3, 0.02, 120),
        "weight_norm": np.linspace(0.5, 5, 120),
    }  # fmt: skip
    facts = Facts(steps=120, parameters=(body, head), loss=LossFacts(kind="mse", reduction="mean"))
    found = {name: Series(np.arange(120), values) for name, values in series.items()}
    assert diagnose(Evidence(series=found, facts=facts))[0].code == first


@pytest.mark.parametrize(("deviations", "last", "is_one"), [
    ((1.3, 1.0), 1.8, True),
    ((1.3, 1.2), 1.8, False),  # a body that was trained up to its end
    ((1.3, 1.0), 0.3, False),
])  # fmt: skip
def test_a_new_layer_that_is_frozen_with_the_trained_body_before_it_was_to_be_trained(deviations, last, is_one):
    """In units of the deviation that PyTorch's first weights have, with 144 of which the sample's errs by 4 %."""
    parameters = [
        ParameterFacts(name=f"{place}.weight", shape=(12, 12), std=times / 6, role="frozen")
        for place, times in enumerate(deviations)
    ]
    head = ParameterFacts(name="2.weight", shape=(3, 12), std=1 / 6)
    layers = tuple(LayerFacts(name=str(place), kind="Linear") for place in range(3))
    loss = Series(np.arange(200), np.concatenate([np.full(3, 2.3), np.full(197, last)]))
    found = Evidence(series={"loss": loss}, facts=Facts(steps=200, parameters=(*parameters, head), layers=layers))
    assert [cause.code for cause in diagnose(found)] == ["frozen_parameters"] * is_one


@pytest.mark.parametrize(("deviation", "last", "is_one"), [(1.0, 1.8, True), (1.2, 1.8, False), (1.0, 0.3, True)])
def test_a_new_head_that_is_frozen_with_its_body_was_to_be_trained(deviation, last, is_one):
    """Biases are trained; gradients of the body are left over from its own training."""
    shapes = {"0": ((64, 64), 1.3), "1": ((10, 64), deviation)}
    parameters = [
        one
        for name, (shape, times) in shapes.items()
        for one in (
            ParameterFacts(name=f"{name}.weight", shape=shape, std=times / (3 * shape[1]) ** 0.5, role="frozen"),
            ParameterFacts(name=f"{name}.bias", shape=shape[:1], std=0.05, role="trained"),
        )
    ]
    layers = tuple(LayerFacts(name=name, kind="Linear") for name in shapes)
    loss = Series(np.arange(200), np.concatenate([np.full(3, 2.3), np.full(197, last)]))
    left = {"gradient_rms": {"0.weight": Series(np.arange(200), np.full(200, 0.01))}}
    facts = Facts(steps=200, last_step=199, parameters=tuple(parameters), layers=layers)
    causes = diagnose(Evidence(series={"loss": loss}, tensors=left, facts=facts))

    assert [cause.code for cause in causes] == ["frozen_parameters"] * is_one


@pytest.mark.parametrize("attribute", ["requires_grad", "needs_grad"])
def test_a_flag_of_a_module_that_trains_adapters_has_a_meaning_of_its_own(attribute):
    """Some of its parameters are as it says, or it is named otherwise."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    model[0].weight.requires_grad_(False)
    if attribute == "needs_grad":
        model[0].requires_grad_(False)
    setattr(model[0], attribute, True)

    assert flagged_modules(model) == []


@pytest.mark.parametrize(("flag", "on", "codes", "is_found"), [
    (True, "module", ["frozen_parameters"], True), (False, "module", [], True), (None, "module", [], False),
    (True, "parameters", ["frozen_parameters"], True), (False, "parameters", [], True),
])  # fmt: skip
def test_a_flag_on_a_module_or_a_misspelt_one_thaws_nothing_and_freezes_nothing(flag, on, codes, is_found):
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU())
    model = torch.nn.Sequential(body, torch.nn.Linear(32, 1))
    body.requires_grad_(flag is not True)
    if flag is not None and on == "module":
        body.requires_grad = flag
    elif flag is not None:
        for parameter in body.parameters():
            parameter.require_grad = flag
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(2 * STEPS):
            rows = torch.randn(64, 16)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(rows)[:, 0], rows.sum(1)).backward()
            optimizer.step()
        report = session.report()

    assert [cause.code for cause in report.causes][:1] == codes
    assert ("flags_are_of_parameters" in [finding.kind for finding in report.findings]) == is_found
    if codes:
        said = "0.requires_grad = True was set" if on == "module" else "0.0.weight.require_grad = True, 0.0.bias"
        assert report.causes[0].evidence[0].startswith(said)


@pytest.mark.parametrize(
    ("deviation", "kind", "is_one"),
    [(1.05, "Linear", True), (1.07, "Linear", False), (1.0, "BatchNorm1d", False)],
)
def test_frozen_weights_that_nothing_ever_trained_are_named_although_much_is_learnt(deviation, kind, is_one):
    """Three standard errors of a deviation, of 512 elements, are 5.9 %; a pretrained body is far from it.

    Trained normalisations make much of random weights.
    """
    body = [
        ParameterFacts(name=f"{name}.weight", shape=(64, 64), std=times / 192**0.5, role="frozen")
        for name, times in (("0", 1.0), ("1", deviation))
    ]
    parameters = (*body, ParameterFacts(name="2.weight", shape=(64,)), ParameterFacts(name="3.weight", shape=(9, 64)))
    layers = tuple(LayerFacts(name=str(place), kind=kind if place == 2 else "Linear") for place in range(4))
    facts = Facts(steps=200, last_step=199, parameters=parameters, layers=layers)
    loss = Series(np.arange(200), np.geomspace(2.3, 0.2, 200))
    causes = diagnose(Evidence(series={"loss": loss}, facts=facts))

    assert [cause.code for cause in causes] == ["frozen_parameters"] * is_one


@pytest.mark.parametrize(("ratio", "is_one"), [(1.5e-4, False), (1.5e-3, True)])
def test_a_frozen_body_says_little_where_all_steps_of_the_others_come_to_nothing(ratio, is_one):
    """160 steps of 1.5e-4, each to another side, come to 0.2 % of the weights."""
    body = ParameterFacts(name="body.weight", shape=(64, 64), std=0.2, role="frozen")
    head = ParameterFacts(name="head.weight", shape=(9, 64), std=0.07)
    facts = Facts(steps=160, last_step=159, parameters=(body, head), loss=LossFacts(kind="cross_entropy"))
    values = {"loss": 2.3 - 1e-3 * np.arange(160) / 160, "update_ratio": ratio, "baseline_loss": 2.3,
              "gradient_cosine": 0.5}  # fmt: skip
    series = {
        name: Series(np.arange(160), np.broadcast_to(np.float64(one), 160).copy()) for name, one in values.items()
    }
    causes = diagnose(Evidence(series=series, facts=facts))
    assert ("frozen_parameters" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("deviation", "scheme", "scale", "is_one"), [
    (1.0, 0.02, 1.0, True), (1.2, 0.02, 1.0, False), (1.0, 0.03, 1.0, False), (1.0, 0.02, 0.98, False),
])  # fmt: skip
def test_a_frozen_body_of_a_configuration_was_never_loaded(deviation, scheme, scale, is_one):
    """Normal weights of 0.02, as transformers begin with; a checkpoint's are others, its norms' scales first of all."""
    body = [
        ParameterFacts(name=name, shape=shape, std=times * scheme, role="frozen")
        for name, shape, times in (("embed.weight", (90, 32), 1.0), ("fc.weight", (128, 32), deviation))
    ]
    body.append(ParameterFacts(name="norm.weight", shape=(32,), mean=scale, role="frozen"))
    kinds = {"embed": "Embedding", "norm": "LayerNorm", "fc": "Linear"}
    layers = tuple(LayerFacts(name=name, kind=kind) for name, kind in kinds.items())
    head = ParameterFacts(name="head.weight", shape=(9, 128), std=0.05)
    facts = Facts(steps=200, last_step=199, parameters=(*body, head), layers=layers)
    loss = Series(np.arange(200), np.geomspace(2.3, 0.2, 200))
    causes = diagnose(Evidence(series={"loss": loss}, facts=facts))

    assert [cause.code for cause in causes] == ["frozen_parameters"] * is_one


@pytest.mark.parametrize(("likeness", "kind", "is_one"), [
    (1.02, "Embedding", True), (1.2, "Embedding", False), (None, "Embedding", False), (1.02, "Linear", False),
])  # fmt: skip
def test_a_small_table_was_never_trained_if_its_rows_are_unrelated_as_well(likeness, kind, is_one):
    """98 rows of four numbers have too few for their deviation alone; all enters by an eighth of the model."""
    table = ParameterFacts(name="0.weight", shape=(98, 4), std=0.965, mean=0.05, role="frozen", likeness=likeness)
    head = ParameterFacts(name="1.weight", shape=(52, 52), std=0.08)
    layers = (LayerFacts(name="0", kind=kind), LayerFacts(name="1", kind="Linear"))
    facts = Facts(steps=200, last_step=199, parameters=(table, head), layers=layers)
    loss = Series(np.arange(200), np.geomspace(1.7, 1.0, 200))
    causes = diagnose(Evidence(series={"loss": loss}, facts=facts))

    assert [cause.code for cause in causes] == ["frozen_parameters"] * is_one


@pytest.mark.parametrize(("likeness", "deviation", "last", "is_one"), [
    (1.04, 0.5, 1.3, True), (1.06, 0.5, 1.3, False), (None, 0.5, 1.3, False), (1.04, 0.5, 1.0, False),
    (1.0, 1.4, 1.3, False),  # as PyTorch's own may be, after a training
])  # fmt: skip
def test_a_frozen_table_whose_rows_are_as_unrelated_as_random_ones_was_drawn(likeness, deviation, last, is_one):
    """The mean square of 8,128 cosines errs by 1.6 %; of a first loss of 2.1 a half may be learnt."""
    table = ParameterFacts(name="0.weight", shape=(1600, 4), std=deviation, role="frozen", likeness=likeness)
    head = ParameterFacts(name="1.weight", shape=(32, 4), std=0.3)
    layers = (LayerFacts(name="0", kind="Embedding"), LayerFacts(name="1", kind="Linear"))
    facts = Facts(steps=200, last_step=199, parameters=(table, head), layers=layers)
    loss = Series(np.arange(200), np.concatenate([np.geomspace(2.1, last, 100), np.full(100, last)]))
    causes = diagnose(Evidence(series={"loss": loss}, facts=facts))

    assert [cause.code for cause in causes] == ["frozen_parameters"] * is_one


@pytest.mark.parametrize(("scale", "is_one"), [(1.0, True), (0.98, False)])
def test_a_body_beside_adapters_was_trained_if_its_norms_were(scale, is_one):
    """Its weights may have the spread that PyTorch's have at first; what is trained has learnt little."""
    body = [ParameterFacts(name=f"{name}.weight", shape=(64, 64), std=1.1 / 192**0.5, role="frozen") for name in "01"]
    norm = ParameterFacts(name="norm.weight", shape=(64,), mean=scale, role="frozen")
    adapter = ParameterFacts(name="0.lora_a", shape=(4, 64), std=0.02)
    kinds = {"0": "Linear", "1": "Linear", "norm": "LayerNorm"}
    layers = tuple(LayerFacts(name=name, kind=kind) for name, kind in kinds.items())
    facts = Facts(steps=200, last_step=199, parameters=(*body, norm, adapter), layers=layers)
    loss = Series(np.arange(200), np.geomspace(2.66, 2.2, 200))
    codes = [cause.code for cause in diagnose(Evidence(series={"loss": loss}, facts=facts))]
    assert ("frozen_parameters" in codes) == is_one


@pytest.mark.parametrize(("rows", "beside", "is_one"), [(10, "0.scale", True), (60, "0.scale", False)])
def test_a_narrow_head_of_normal_weights_that_is_frozen_with_its_body_is_new(rows, beside, is_one):
    """A language model's last layer has a row for each token, and may have such weights when it is trained."""
    body = ParameterFacts(name="0.base.weight", shape=(48, 48), std=1.3 / 144**0.5, role="frozen")
    head = ParameterFacts(name="1.weight", shape=(rows, 48), std=0.02, role="frozen")
    assert _frozen(body, head, ParameterFacts(name=beside, shape=(4, 48), std=0.1)) == is_one


@pytest.mark.parametrize(("beside", "is_one"), [("1.lora_a", False), ("0.lora_a", True)])
def test_a_weight_with_an_adapter_beside_it_is_no_new_layer(beside, is_one):
    body = ParameterFacts(name="0.base.weight", shape=(48, 48), std=1.3 / 144**0.5, role="frozen")
    last = ParameterFacts(name="1.base.weight", shape=(48, 48), std=1 / 144**0.5, role="frozen")
    assert _frozen(body, last, ParameterFacts(name=beside, shape=(4, 48), std=0.1)) == is_one


def _frozen(body, head, beside):
    """Whether something is frozen that should not be, where the loss fell by nine tenths."""
    layers = tuple(LayerFacts(name=one.name.rpartition(".")[0], kind="Linear") for one in (body, head))
    facts = Facts(steps=200, last_step=199, parameters=(beside, body, head), layers=layers)
    loss = Series(np.arange(200), np.geomspace(2.3, 0.2, 200))
    found = diagnose(Evidence(series={"loss": loss}, facts=facts))
    return "frozen_parameters" in [cause.code for cause in found]


@pytest.mark.parametrize(
    ("fresh", "trains_at", "codes"), [(False, None, []), (False, 3, ["wrong_mode"]), (True, None, ["wrong_mode"])]
)
def test_batch_norms_that_were_trained_before_may_keep_their_statistics_from_the_first_step_on(fresh, trains_at, codes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    if not fresh:
        nn.init.normal_(model[1].weight, 1.0, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with stepscope.watch(model, optimizer) as session:
        for step in range(30):
            rows = torch.randn(32, 6)
            model.train(step == trains_at)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            optimizer.step()

    report = session.report()
    assert [cause.code for cause in report.causes] == codes
    assert ("eval_mode_in_training" in {one.kind for one in report.findings}) is bool(codes)


@pytest.mark.parametrize(("trained", "evaluates", "size", "is_one"), [
    (False, True, 0.3, True), (True, True, 0.3, False), (False, False, 0.3, False), (False, False, 1e-3, False),
])  # fmt: skip
def test_new_batch_norms_of_a_part_in_eval_mode_normalise_nothing(trained, evaluates, size, is_one):
    """A recipe of fine tuning keeps the norms of a backbone; in a new one they know no data.

    Inputs whose variance is below the epsilon of a norm become larger in training mode, but not as large as 1.
    """
    torch.manual_seed(0)
    linear = [nn.Linear(6, 6, bias=False) for _ in range(2)]
    layers = [linear[0], nn.BatchNorm1d(6), nn.ReLU(), linear[1], nn.BatchNorm1d(6), nn.ReLU()]
    backbone = nn.Sequential(*layers)
    for norm in layers[1::3]:
        nn.init.normal_(norm.weight, 1.0, 0.1 * trained)
    model = nn.Sequential(backbone, nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        backbone.train(not evaluates)
        for _ in range(30):
            rows = size * torch.randn(32, 6)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            optimizer.step()

    found = [cause for cause in session.report().causes if cause.code == "wrong_mode"]
    assert any("2 batch norms begin as new" in cause.evidence[0] for cause in found) is is_one


@pytest.mark.parametrize(("keeps", "out", "scale", "last", "is_one"), [
    (True, 0.9, 1.0, 2.0, False), (True, 0.2, 1.0, 2.0, True), (True, 0.2, 0.5, 2.0, False),
    (True, 0.2, 1.0, 0.1, False), (False, 0.9, 1.0, 2.0, True),
])  # fmt: skip
def test_statistics_that_are_kept_on_purpose_are_those_of_what_enters(keeps, out, scale, last, is_one):
    """Norms of another training that put out a fifth of their scale, and leave much to learn, normalise nothing."""
    names = ("0", "1", "2")
    series = {"loss": np.geomspace(2.3, last, STEPS), "baseline_loss": np.full(STEPS, 2.3)}
    facts = Facts(
        steps=STEPS,
        eval_steps=STEPS,
        keeps_statistics=keeps,
        layers=tuple(LayerFacts(name=name, kind="BatchNorm1d") for name in names),
        parameters=tuple(ParameterFacts(name=f"{name}.weight", shape=(8,), mean=scale, std=0.01) for name in names),
    )
    outputs = {name: Series(np.arange(STEPS), np.full(STEPS, out)) for name in names}
    found = {name: Series(np.arange(STEPS), one) for name, one in series.items()}
    causes = diagnose(Evidence(series=found, tensors={"output_std": outputs}, facts=facts))
    assert ("wrong_mode" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("momentum", "deviation", "validated", "is_one"), [
    (1e-4, 0.0, 1.0, True), (1e-2, 0.0, 1.0, False), (1e-4, 0.0, 0.25, False), (1e-4, 0.1, 1.0, False),
])  # fmt: skip
def test_statistics_that_hardly_follow_are_those_of_a_new_layer_in_eval_mode(momentum, deviation, validated, is_one):
    """Of a norm that was trained before, the statistics are those of its data."""
    facts = Facts(
        steps=200,
        layers=(LayerFacts(name="norm", kind="BatchNorm1d", value=momentum),),
        parameters=(ParameterFacts(name="norm.weight", shape=(8,), mean=1.0, std=deviation),),
    )
    values = {"loss": np.geomspace(2.3, 0.2, 200), "validation/loss": np.full(200, np.nan)}
    values["validation/loss"][50::50] = validated
    found = {name: Series(np.arange(200), one) for name, one in values.items()}
    codes = [cause.code for cause in diagnose(Evidence(series=found, facts=facts))]
    assert ("wrong_mode" in codes) == is_one


@pytest.mark.parametrize(("share", "norms", "is_one"), [(0.1, False, False), (0.3, False, True), (0.1, True, True)])
def test_a_tenth_of_dropout_may_rest_in_training(share, norms, is_one):
    layers = [LayerFacts(name="drop", kind="Dropout", value=share), LayerFacts(name="norm", kind="BatchNorm1d")]
    facts = Facts(steps=STEPS, eval_steps=STEPS, layers=tuple(layers[: 1 + norms]))
    loss = Series(np.arange(STEPS), np.geomspace(2.3, 0.1, STEPS))
    codes = [cause.code for cause in diagnose(Evidence(series={"loss": loss}, facts=facts))]
    assert ("wrong_mode" in codes) == is_one


@pytest.mark.parametrize("since", [0, 50])
def test_a_wrong_mode_begins_where_it_begins(since):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with stepscope.watch(model, optimizer) as session:
        for step in range(100):
            model.train(step < since)
            rows = torch.randn(32, 6)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            optimizer.step()
    (cause,) = session.report().causes
    assert (cause.code, cause.since_step) == ("wrong_mode", since)
