"""The diagnosis of trainings with several optimizers: silent about sound ones, and of sick ones it names the part."""

import pytest
import torch
from digits_data import digits_data
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

import stepscope
from debuggers.diagnosis.rules.diagnose import diagnose
from stepscope.diagnosing.stored_evidence import stored_evidence


def kinds(session):
    return {one.kind for one in session.report().findings if one.level != "info"}


class Gan:
    """Points of two dimensions; the generator steps after every few steps of the critic."""

    def __init__(self, every):
        torch.manual_seed(0)
        maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.model, self.every = nn.ModuleDict({"maker": maker, "critic": critic}), every
        self.optimizers = [torch.optim.Adam(one.parameters(), 2e-3) for one in (critic, maker)]

    def run(self, steps, detached=True):
        maker, critic, loss = self.model["maker"], self.model["critic"], nn.BCEWithLogitsLoss()
        of_critic, of_maker = self.optimizers
        losses = []
        for number in range(steps):
            real, fake = torch.randn(32, 2) + 2, maker(torch.randn(32, 4))
            of_critic.zero_grad()
            judged = critic(fake.detach() if detached else fake)
            critics = loss(critic(real), torch.ones(32, 1)) + loss(judged, torch.zeros(32, 1))
            critics.backward(retain_graph=not detached)
            of_critic.step()
            losses.append(critics.item())
            if number % self.every == self.every - 1:
                of_maker.zero_grad()
                makers = loss(critic(maker(torch.randn(32, 4))), torch.ones(32, 1))
                makers.backward()
                of_maker.step()
                losses.append(makers.item())
        return losses


@pytest.mark.parametrize(
    ("every", "detached", "steps"),
    [
        (1, True, 60),
        *(pytest.param(*case, 150, marks=pytest.mark.slow) for case in ((1, True), (5, False), (1, False), (5, True))),
    ],
)
def test_a_gan_is_sound(every, detached, steps):
    gan = Gan(every)
    with stepscope.watch(gan.model, gan.optimizers, config="full") as session:
        losses = gan.run(steps, detached)
    assert losses == Gan(every).run(steps, detached)
    report = session.report()
    assert report.causes == ()
    assert kinds(session) == set()
    assert report.failures == {}
    assert session.last_step + 1 == (steps if every == 1 else 180)
    assert report.coverage.without_gradient == ()


@pytest.mark.slow
def test_an_actor_and_its_critic_are_sound():
    def make():
        torch.manual_seed(0)
        actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
        critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        return actor, critic, torch.optim.Adam(actor.parameters(), 3e-3), torch.optim.Adam(critic.parameters(), 1e-2)

    def run(actor, critic, of_actor, of_critic):
        losses = []
        for _ in range(150):
            states = torch.randn(64, 3)
            chosen = torch.distributions.Categorical(logits=actor(states))
            actions = chosen.sample()
            rewards = (actions == (states[:, 0] > 0)).float() + 0.1 * torch.randn(64)
            values = critic(states).squeeze(1)
            of_critic.zero_grad()
            error = mse_loss(values, rewards)
            error.backward()
            of_critic.step()
            of_actor.zero_grad()
            policy = -(chosen.log_prob(actions) * (rewards - values.detach())).mean() - 0.01 * chosen.entropy().mean()
            policy.backward()
            of_actor.step()
            losses += [error.item(), policy.item()]
        return losses

    actor, critic, of_actor, of_critic = make()
    model = nn.ModuleDict({"actor": actor, "critic": critic})
    with stepscope.watch(model, [of_critic, of_actor], config="full") as session:
        losses = run(actor, critic, of_actor, of_critic)
    assert losses == run(*make())
    assert session.report().causes == ()
    assert kinds(session) == set()
    assert session.last_step == 149


class Digits:
    """A body and a head with an optimizer each, whose steps come one after the other."""

    def __init__(self, rates):
        torch.manual_seed(0)
        body, head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU()), nn.Linear(32, 10)
        self.model = nn.Sequential(body, head)
        self.optimizers = [
            torch.optim.Adam(one.parameters(), rate) for one, rate in zip((body, head), rates, strict=True)
        ]

    def run(self, missing=(), unzeroed=(), steps=150, run=None):
        inputs, targets = (torch.tensor(values) for values in digits_data())
        with stepscope.watch(self.model, self.optimizers, run=run) as session:
            for _ in range(steps):
                rows = torch.randint(len(inputs), (64,))
                for place, one in enumerate(self.optimizers):
                    if place not in unzeroed:
                        one.zero_grad()
                cross_entropy(self.model(inputs[rows].float() / 16), targets[rows]).backward()
                for place, one in enumerate(self.optimizers):
                    if place not in missing:
                        one.step()
        return session.report()


def test_a_body_and_a_head_are_sound():
    report = Digits((3e-3, 3e-3)).run()
    assert report.causes == ()
    assert report.failures == {}


@pytest.mark.parametrize(
    ("how", "place"),
    [
        ("never steps", 0),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("never steps", 1), ("no rate", 0), ("no rate", 1))),
    ],
)
def test_one_that_trains_nothing_is_named(place, how):
    rates = [3e-3, 3e-3]
    if how == "no rate":
        rates[place] = 0.0
    report = Digits(rates).run(missing=(place,) if how == "never steps" else ())
    cause = report.causes[0]
    assert cause.code == "no_update"
    assert set(cause.where) == (
        {"1.weight", "1.bias"} if place else {"0.0.weight", "0.0.bias", "0.2.weight", "0.2.bias"}
    )
    expected = "took no step" if how == "never steps" else "with a learning rate of 0"
    assert f"optimizer[{place}] (Adam)" in cause.evidence[0]
    assert expected in cause.evidence[0]


def test_a_stored_run_tells_the_same(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        report = Digits((3e-3, 0.0)).run(run=run, steps=60)
    stored = diagnose(stored_evidence(stepscope.read_run(tmp_path / "run")))
    assert [one.code for one in stored] == [one.code for one in report.causes]
    assert stored[0].code == "no_update"
    assert stored[0].where == report.causes[0].where
    assert stored[0].evidence == report.causes[0].evidence


def test_one_whose_rate_is_too_high_is_named():
    report = Digits((0.3, 3e-3)).run()
    cause = report.causes[0]
    assert cause.code == "learning_rate_too_high"
    assert {"0.0.weight", "0.2.weight"} <= set(cause.where)
    assert "1.weight" not in cause.where
    assert cause.advice.startswith("learning_rate/adam_0: 0.3 →")


@pytest.mark.parametrize("place", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_one_whose_gradients_are_not_zeroed_is_noticed(place):
    report = Digits((3e-3, 3e-3)).run(unzeroed=(place,))
    assert [one.code for one in report.causes] == ["gradients_not_zeroed"]


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_a_gan_with_gradients_that_are_not_zeroed_is_noticed(place, monkeypatch):
    gan = Gan(1)
    monkeypatch.setattr(gan.optimizers[place], "zero_grad", lambda: None)
    with stepscope.watch(gan.model, gan.optimizers) as session:
        gan.run(60)
    assert [one.code for one in session.report().causes] == ["gradients_not_zeroed"]
