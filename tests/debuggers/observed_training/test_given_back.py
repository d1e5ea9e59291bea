"""Which targets of a loss of several terms are looked at: inputs given back, and those of the only comparison."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.diagnosis.derived.relation import reconstructs


class Coder(nn.Module):
    """Draws a code, and gives back what it stands for, with the code's mean and the logarithm of its variance."""

    def __init__(self):
        super().__init__()
        self.coder, self.decoder = nn.Linear(12, 8), nn.Linear(4, 12)

    def forward(self, inputs):
        mean, log_variance = self.coder(inputs.flatten(1)).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return self.decoder(code), mean, log_variance


@pytest.mark.parametrize("is_seen", [True, False])
def test_targets_of_several_terms_are_seen_where_they_are_the_inputs(is_seen):
    torch.manual_seed(0)
    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(12):
            rows = torch.rand(16, 3, 4)
            outputs, mean, log_variance = model(rows)
            targets = (rows if is_seen else rows.flip(0)).flatten(1)
            divergence = -(1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean() / 2
            loss = functional.mse_loss(torch.sigmoid(outputs), targets) + divergence
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            session.step()
    evidence = session.evidence()

    assert evidence.facts.loss.kind == "mse"
    assert evidence.facts.loss.terms == 2
    assert (len(evidence["correlation"]) > 0) == (len(evidence["baseline_loss"]) > 0) == is_seen
    assert reconstructs(evidence) == is_seen


@pytest.mark.parametrize("compares_twice", [False, True])
def test_targets_are_seen_beside_penalties_but_not_beside_another_comparison(compares_twice):
    torch.manual_seed(0)
    model = nn.Conv1d(2, 1, 3, padding=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(12):
            rows = torch.rand(16, 2, 8)
            outputs, targets = model(rows), rows.mean(1, keepdim=True)
            other = functional.mse_loss(outputs, targets.flip(0)) if compares_twice else outputs.diff().abs().mean()
            optimizer.zero_grad()
            (functional.mse_loss(outputs, targets) + 0.1 * other).backward()
            optimizer.step()
            session.step()
    evidence = session.evidence()

    assert evidence.facts.loss.terms == 2
    assert (len(evidence["correlation"]) > 0) == (not compares_twice)


@pytest.mark.parametrize("chooses", [True, False])
def test_labels_that_say_which_rows_are_alike_have_no_constant_output(chooses):
    """A contrast chooses among the rows of a batch; its labels are of fewer classes than that."""
    torch.manual_seed(0)
    model = nn.Linear(6, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(12):
            rows, labels = torch.rand(16, 6), torch.randint(4, (16,))
            outputs = model(rows)
            alike = functional.normalize((labels[:, None] == labels).float(), p=1, dim=1)
            scores = outputs if chooses else outputs @ outputs.T
            loss = functional.cross_entropy(scores, labels if chooses else alike)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()

    assert (len(session.evidence()["baseline_loss"].finite) > 0) == chooses


@pytest.mark.parametrize("flat", [True, False])
def test_a_sequence_s_classes_stand_last_and_have_a_constant_output(flat):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(12):
            rows, following = torch.randint(20, (8, 12)), torch.randint(20, (8, 12))
            outputs = model(rows)
            goals = following.flatten() if flat else following
            loss = functional.cross_entropy(outputs.flatten(0, 1) if flat else outputs.transpose(1, 2), goals)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=goals)
            optimizer.step()

    assert session.evidence()["baseline_loss"].last == pytest.approx(2.99, abs=0.05)


def test_what_a_critic_is_compared_with_is_not_the_policy_s():
    torch.manual_seed(0)

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.actor, self.critic = nn.Linear(6, 16), nn.Linear(16, 3), nn.Linear(16, 1)

        def forward(self, states):
            body = self.body(states).relu()
            return self.actor(body), self.critic(body)[:, 0]

    model = Agent()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(12):
            states, returns = torch.rand(16, 6), 50 * torch.randn(16)
            scores, values = model(states)
            choice = torch.distributions.Categorical(logits=scores)
            gains = choice.log_prob(choice.sample()) * (returns - values.detach())
            optimizer.zero_grad()
            (0.5 * functional.mse_loss(values, returns) - gains.mean() - 0.01 * choice.entropy().mean()).backward()
            optimizer.step()
            session.step()

    assert not len(session.evidence()["targets/mean"])
