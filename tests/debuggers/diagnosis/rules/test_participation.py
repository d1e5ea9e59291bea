"""Signs of parameters that take no part, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest
import torch
from made_evidence import evidence, of_roles

import stepscope
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, InvariantFacts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 60


@pytest.mark.parametrize(("broken", "is_one"), [(8, True), (4, False)])
def test_weights_that_the_model_does_not_know_are_in_no_optimizer(broken, is_one):
    invariant = InvariantFacts(name="weights_are_registered", checked=9, broken=broken, first_step=1, where="(6, 64)")
    causes = diagnose(Evidence(facts=Facts(steps=STEPS, invariants=(invariant,))))

    assert [cause.code for cause in causes] == ["parameters_not_in_optimizer"] * is_one
    if is_one:
        assert "(6, 64)" in causes[0].evidence[0]
        assert "ModuleList" in causes[0].advice


class Remade(torch.nn.Module):
    """A network that makes its second layer in each call, as a beginner may."""

    def __init__(self):
        super().__init__()
        self.first, self.head = torch.nn.Linear(6, 16), torch.nn.Linear(16, 1)

    def forward(self, rows):
        return self.head(torch.nn.Linear(16, 16)(self.first(rows).relu()).relu())


def test_layers_that_are_made_in_forward_are_never_trained():
    torch.manual_seed(0)
    model = Remade()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(20):
            rows = torch.randn(32, 6)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            optimizer.step()

    (cause,) = session.report().causes
    assert cause.code == "parameters_not_in_optimizer"
    assert "(16, 16)" in cause.evidence[0]
    assert "__init__" in cause.advice


@pytest.mark.parametrize(
    "calls", ["the optimizer's", "the optimizer's for its head", "its own", "its own, a copy's are optimised"]
)
def test_a_model_that_is_called_with_the_weights_of_the_optimizer_is_trained_by_them(calls):
    """As in functional training; an optimizer that was made from a copy trains nothing that the model has."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    copies = {name: one.detach().clone().requires_grad_() for name, one in model.named_parameters()}
    if calls.endswith("head"):
        copies = {name: one for name, one in copies.items() if name.startswith("2.")}
        model[0].requires_grad_(False)
    is_lent = calls.startswith("the optimizer's")
    optimizer = torch.optim.Adam(model.parameters() if calls == "its own" else copies.values(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(30):
            rows = torch.randn(32, 6)
            optimizer.zero_grad()
            outputs = torch.func.functional_call(model, copies if is_lent else {}, (rows,))
            torch.nn.functional.mse_loss(outputs, rows[:, :1]).backward()
            optimizer.step()

    report = session.report()
    assert bool(report.causes) is calls.endswith("optimised")
    assert ("weights that are not its own" in report.summary()) is is_lent


def test_an_ensemble_whose_weights_are_stacked_is_trained_by_them():
    torch.manual_seed(0)
    members = [torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)) for _ in range(3)]
    weights, buffers = torch.func.stack_module_state(members)
    optimizer = torch.optim.Adam(weights.values(), lr=0.01)
    with stepscope.watch(members[0], optimizer) as session:
        for _ in range(60):
            rows = torch.randn(32, 6)
            optimizer.zero_grad()
            outputs = torch.vmap(lambda *lent: torch.func.functional_call(members[0], lent, (rows,)))(weights, buffers)  # noqa: B023
            torch.nn.functional.mse_loss(outputs, rows[:, :1].repeat(3, 1, 1)).backward()
            optimizer.step()

    report = session.report()
    assert not report.causes
    assert "weights that are not its own" in report.summary()


def test_steps_that_change_nothing_do_not_follow_from_large_inputs():
    values = {"update_ratio": 0.0, "total_norm/gradients": 1.0, "inputs/mean": 0.0, "inputs/std": 100.0, "loss": 2.3}
    series = {name: Series(np.arange(STEPS), np.full(STEPS, value)) for name, value in values.items()}

    assert diagnose(Evidence(series=series, facts=Facts(steps=STEPS)))[0].code == "no_update"


@pytest.mark.parametrize(
    ("roles", "is_one"),
    [
        (("without_gradient", "without_gradient", "trained"), True),
        (("frozen", "without_gradient", "trained"), True),
        (("trained", "trained", "without_gradient"), False),
        (("trained", "without_gradient", "trained"), False),
    ],
)
def test_layers_before_all_trained_ones_are_cut_off_even_where_no_layer_was_seen_to_run(roles, is_one):
    codes = [cause.code for cause in diagnose(of_roles(*roles, std=0.1))]

    assert ("detached_parameters" in codes) == is_one


@pytest.mark.parametrize("head", [(2, 8), (8,)])
def test_a_small_head_below_a_large_part_without_gradients_is_trained(head):
    """All but a ten-thousandth of the weights is cut off; steps do change the rest, which may be an offset alone."""
    parameters = (
        ParameterFacts(name="body.weight", shape=(1000, 1000), std=0.02, role="without_gradient"),
        ParameterFacts(name="head.weight", shape=head, std=0.2),
    )
    falling = Series(np.arange(STEPS), np.geomspace(2.0, 0.2, STEPS))
    facts = Facts(steps=STEPS, parameters=parameters, loss=LossFacts(kind="mse", reduction="mean"))
    codes = [cause.code for cause in diagnose(Evidence(series={"loss": falling}, facts=facts))]

    assert codes == ["detached_parameters"]


@pytest.mark.parametrize("others", [True, False])
def test_a_model_without_any_gradient_beside_another_ones_was_cut_off(others):
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), std=0.2, role="without_gradient")
    tensors = {"output_std": {"fc": Series(np.arange(STEPS), np.ones(STEPS))}}
    causes = diagnose(
        Evidence(tensors=tensors, facts=Facts(steps=STEPS, parameters=(weight,), trained_with_others=others))
    )
    assert [cause.code for cause in causes] == ["detached_parameters"] * others


@pytest.mark.parametrize(("reads", "length", "is_one"), [
    ("first", 8, True),
    ("first", 1, False),
    pytest.param("last", 8, False, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_loss_of_the_first_step_of_a_sequence_leaves_a_recurrence_out(reads, length, is_one):
    torch.manual_seed(0)
    model, head = torch.nn.LSTM(3, 8, batch_first=True), torch.nn.Linear(8, 1)
    both = torch.nn.ModuleList([model, head])
    optimizer = torch.optim.Adam(both.parameters(), lr=0.01)
    with stepscope.watch(both, optimizer) as session:
        for _ in range(120):
            rows = torch.randn(16, length, 3)
            outputs = model(rows)[0]
            loss = (head(outputs[:, 0 if reads == "first" else -1])[:, 0] - rows.sum((1, 2))).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        causes = [cause.code for cause in session.report().causes]
    assert ("detached_parameters" in causes) == is_one


@pytest.mark.parametrize(
    ("scale", "width", "reversed_", "is_one"),
    [
        (1.0, 3, False, True),
        (3.0, 3, False, False),  # something trained it
        (1.0, 5, False, False),  # it does not fit
        (1.0, 3, True, False),  # it stands behind what is trained
    ],
)
def test_a_new_encoder_that_runs_without_gradients_is_cut_off(scale, width, reversed_, is_one):
    """Of layers that ran without gradients nothing else is seen."""
    shapes = {"encoder.0": (16, 30), "encoder.2": (3, 16), "decoder.0": (16, width), "decoder.2": (30, 16)}
    parameters = [
        ParameterFacts(
            name=f"{name}.weight",
            shape=shape,
            std=(scale if name.startswith("encoder") else 3.0) / (3 * shape[1]) ** 0.5,
            role="without_gradient" if name.startswith("encoder") else "trained",
        )
        for name, shape in shapes.items()
    ]
    parameters = parameters[::-1] if reversed_ else parameters
    layers = tuple(LayerFacts(name=name, kind="Linear") for name in shapes)
    ran = {name: Series(np.arange(200), np.ones(200)) for name in shapes if name.startswith("decoder")}
    loss = Series(np.arange(200), np.geomspace(2.0, 0.5, 200))
    facts = Facts(steps=200, parameters=tuple(parameters), layers=layers)
    causes = diagnose(Evidence(series={"loss": loss}, tensors={"output_std": ran}, facts=facts))

    assert [cause.code for cause in causes] == ["detached_parameters"] * is_one


@pytest.mark.parametrize(("width", "is_one"), [(128, True), (8, True), (100, False)])
def test_new_convolutions_whose_features_were_computed_once_are_cut_off(width, is_one):
    """Each of their eight channels has 16 places; what does not fit may be the net of another loss."""
    shapes = {"0": (8, 1, 3, 3), "2": (8, 8, 3, 3)}
    parameters = [
        ParameterFacts(name=f"{name}.weight", shape=one, std=(3 * np.prod(one[1:])) ** -0.5, role="without_gradient")
        for name, one in shapes.items()
    ]
    parameters.append(ParameterFacts(name="5.weight", shape=(2, width), std=0.3))
    layers = tuple(LayerFacts(name=name, kind="Conv2d" if name in shapes else "Linear") for name in "025")
    loss = Series(np.arange(200), np.geomspace(0.9, 0.5, 200))
    ran = {"5": Series(np.arange(200), np.ones(200))}
    facts = Facts(steps=200, parameters=tuple(parameters), layers=layers)
    causes = diagnose(Evidence(series={"loss": loss}, tensors={"output_std": ran}, facts=facts))

    assert [cause.code for cause in causes] == ["detached_parameters"] * is_one


@pytest.mark.parametrize(("moves", "is_one"), [(True, False), (False, True)])
def test_a_teacher_that_follows_as_an_average_is_not_cut_off(moves, is_one):
    """It runs without gradients, within the model, and the optimizer holds it, too."""
    parameters = tuple(
        ParameterFacts(name=f"{name}.weight", shape=(16, 16), std=0.3, role=role, moves=moves and name == "teacher")
        for name, role in (("student", "trained"), ("teacher", "without_gradient"))
    )
    ran = {name: Series(np.arange(200), np.ones(200)) for name in ("student", "teacher")}
    loss = Series(np.arange(200), np.geomspace(2.0, 0.3, 200))
    facts = Facts(steps=200, parameters=parameters)
    causes = diagnose(Evidence(series={"loss": loss}, tensors={"output_std": ran}, facts=facts))

    assert ("detached_parameters" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("called", "width", "is_one"), [
    (("body", "value", "head"), 3, True), (("body", "head", "value"), 3, False), (("body", "head", "value"), 9, True),
    ((), 3, True),
])  # fmt: skip
def test_a_head_that_is_called_last_and_used_by_nothing_is_no_cut(called, width, is_one):
    """As the critic of a policy that imitates; a fifth of the model may be one."""
    shapes = {"body": (16, 16), "value": (width, 16), "head": (10, 16)}
    roles = {"value": "without_gradient"}
    parameters = tuple(
        ParameterFacts(name=f"{name}.weight", shape=shape, std=0.4, role=roles.get(name, "trained"))
        for name, shape in shapes.items()
    )
    ran = {name: Series(np.arange(200), np.ones(200)) for name in shapes}
    loss = Series(np.arange(200), np.geomspace(2.0, 0.3, 200))
    layers = tuple(LayerFacts(name=name, kind="Linear") for name in ("body", "value", "head"))
    facts = Facts(steps=200, parameters=parameters, layers=layers, called=called)
    causes = diagnose(Evidence(series={"loss": loss}, tensors={"output_std": ran}, facts=facts))

    assert ("detached_parameters" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("falls_to", "first", "is_one"), [(0.6, False, False), (0.8, False, True), (0.6, True, True)])
def test_a_small_head_that_nothing_uses_is_no_cut_where_the_loss_falls(falls_to, first, is_one):
    """As the pooler of a language model, whose loss falls by no more than a half."""
    roles = ("without_gradient", "trained") if first else ("trained", "without_gradient")
    parameters = tuple(
        ParameterFacts(name=f"{role}.weight", shape=(12, 12 if role == "without_gradient" else 400), std=0.1, role=role)
        for role in roles
    )
    loss = Series(np.arange(200), np.geomspace(4.8, 4.8 * falls_to, 200))
    ran = {role: Series(np.arange(200), np.ones(200)) for role in roles}
    facts = Facts(steps=200, parameters=parameters)
    causes = diagnose(Evidence(series={"loss": loss}, tensors={"output_std": ran}, facts=facts))

    assert ("detached_parameters" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("without", "is_one"), [((2,), False), ((0,), True), ((1, 2), True), ((0, 1, 2), True)])
def test_what_only_the_last_of_several_blocks_computes_for_nothing_is_no_cut(without, is_one):
    """As in N-BEATS, whose blocks explain the past for the next one."""
    parameters = tuple(
        ParameterFacts(name=f"blocks.{place}.{head}.weight", shape=(12, 12), std=0.1,
                       role="without_gradient" if place in without and head == "backcast" else "trained")
        for place in range(3) for head in ("forecast", "backcast")
    )  # fmt: skip
    ran = {one.name.rpartition(".")[0]: Series(np.arange(200), np.ones(200)) for one in parameters}
    loss = Series(np.arange(200), np.geomspace(2.0, 0.1, 200))
    facts = Facts(steps=200, parameters=parameters)
    causes = diagnose(Evidence(series={"loss": loss}, tensors={"output_std": ran}, facts=facts))

    assert ("detached_parameters" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("begins", "is_one"), [(40, False), (1000, True)])
def test_what_another_optimizer_trains_later_on_is_none_that_was_forgotten(begins, is_one):
    """As the weights of an architecture, which are searched for after some epochs."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 1))
    mine, other = (torch.optim.SGD(layer.parameters(), lr=0.01) for layer in model)
    with stepscope.watch(model, mine) as session:
        for step in range(60):
            rows = torch.randn(32, 6)
            model.zero_grad()
            torch.nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            mine.step()
            if step >= begins:
                other.step()

    assert ("parameters_not_in_optimizer" in [cause.code for cause in session.report().causes]) is is_one


class Towers(torch.nn.Module):
    """Two encoders whose outputs are to be alike."""

    def __init__(self):
        super().__init__()
        self.left, self.right = (
            torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 12)) for _ in range(2)
        )


@pytest.mark.parametrize(("without_graph", "held", "every", "follows", "is_one"), [
    (True, True, 1, False, True), (False, True, 1, False, False), (True, False, 1, False, False),
    (True, True, 2, False, False), (True, True, 1, True, False),
])  # fmt: skip
def test_a_new_tower_of_the_optimizer_that_runs_without_gradients_is_cut_off(
    without_graph, held, every, *, follows, is_one
):
    """One that no optimizer holds is a fixed target, one that runs now and then belongs to validations.

    One that follows the other is an average of it.
    """
    torch.manual_seed(0)
    towers = Towers()
    trained = towers if held else towers.left
    optimizer = torch.optim.Adam(trained.parameters(), lr=1e-3)
    with stepscope.watch(towers, optimizer) as session:
        for step in range(STEPS):
            rows = torch.randn(64, 16)
            targets = torch.randn(64, 12)
            if step % every == 0:
                with torch.set_grad_enabled(not without_graph):
                    targets = towers.right(rows + 0.1 * torch.randn_like(rows))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(towers.left(rows), targets).backward()
            optimizer.step()
            if follows:
                with torch.no_grad():
                    for own, other in zip(towers.right.parameters(), towers.left.parameters(), strict=True):
                        own.lerp_(other, 0.1)
        causes = {cause.code: cause for cause in session.report().causes}

    assert ("detached_parameters" in causes) == is_one
    if is_one:
        assert "always without gradients" in causes["detached_parameters"].evidence[0]
        assert "right.0.weight" in causes["detached_parameters"].where


class Spring(torch.nn.Module):
    """Two numbers, one of which may be read by its value."""

    def __init__(self, *, by_value):
        super().__init__()
        self.stiffness, self.damping = (torch.nn.Parameter(torch.tensor(value)) for value in (1.0, 0.5))
        self.by_value = by_value

    def forward(self, places):
        stiffness = self.stiffness.item() if self.by_value else self.stiffness
        return stiffness * places + self.damping * places.square()


@pytest.mark.parametrize("by_value", [True, False])
def test_a_number_of_the_model_itself_that_is_read_by_its_value_is_cut_off(by_value):
    torch.manual_seed(0)
    spring = Spring(by_value=by_value)
    optimizer = torch.optim.Adam(spring.parameters(), lr=0.05)
    with stepscope.watch(spring, optimizer) as session:
        for _ in range(3 * STEPS):
            places = torch.randn(32)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(spring(places), 3 * places - 0.2 * places.square()).backward()
            optimizer.step()
        causes = session.report().causes

    assert [cause.code for cause in causes][:1] == ["detached_parameters"] * by_value


@pytest.mark.parametrize(("weights", "first", "is_one"), [(2, True, True), (1, True, False), (2, False, False)])
def test_a_small_net_of_several_weights_in_front_is_cut_off_however_far_the_loss_falls(weights, first, is_one):
    """An actor whose actions are detached, before a critic of 99 % of the weights that learns well."""
    actor = [ParameterFacts(name=f"actor.{place}.weight", shape=(8, 4), std=0.3, role="without_gradient")
             for place in range(weights)]  # fmt: skip
    critic = [ParameterFacts(name="critic.weight", shape=(100, 100), std=0.1)]
    parameters = tuple([*actor, *critic] if first else [*critic, *actor])
    ran = {one.name.removesuffix(".weight"): Series(np.arange(STEPS), np.ones(STEPS)) for one in parameters}
    found = Evidence(
        series={"loss": Series(np.arange(STEPS), np.geomspace(2.0, 0.2, STEPS))}, tensors={"output_std": ran},
        facts=Facts(steps=STEPS, parameters=parameters),
    )  # fmt: skip
    assert ("detached_parameters" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("rows", "columns", "kind", "is_one"), [
    (40, 8, "Embedding", True), (2, 8, "Embedding", False), (40, 16, "Embedding", False), (40, 8, "Linear", False),
])  # fmt: skip
def test_a_table_that_nothing_calls_beside_one_that_is_trained_is_read_by_its_data(rows, columns, kind, is_one):
    """Segments that a text has one of are two rows; one of another width is no factor of the same product."""
    found = evidence(
        facts=Facts(
            steps=STEPS, loss=LossFacts(kind="mse", reduction="mean"),
            layers=(LayerFacts(name="users", kind="Embedding"), LayerFacts(name="items", kind=kind)),
            parameters=(
                ParameterFacts(name="users.weight", shape=(60, 8), std=0.3),
                ParameterFacts(name="items.weight", shape=(rows, columns), std=0.3, role="without_gradient"),
            ),
        ),
        loss=np.linspace(1.0, 0.5, STEPS), tensors={"output_std": {"users": np.full(STEPS, 0.3)}},
    )  # fmt: skip
    assert ("detached_parameters" in [cause.code for cause in diagnose(found)]) is is_one
