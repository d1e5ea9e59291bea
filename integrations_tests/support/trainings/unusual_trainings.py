"""Short trainings on unusual values, or with gradients of unusual origin; entered beside those of many_trainings."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from many_trainings import STEPS, data, mlp, plain, sgd, training, usual
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset


@training
def gradients_by_autograd_grad(observer):
    model = mlp()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs, targets = data()
        loss = mse_loss(model(inputs), targets)
        for parameter, gradient in zip(
            model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            parameter.grad = gradient
        optimizer.step()
        observer.between(loss, inputs, targets)
    observer.end()


@training
def functional(observer):
    model = plain()
    optimizer = sgd(model)
    observer.begin(model, optimizer)

    def loss_of(parameters, one, target):
        return mse_loss(functional_call(model, parameters, (one[None],)), target[None])

    for _ in range(STEPS):
        inputs, targets = data()
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
        each = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, inputs, targets)
        for name, parameter in model.named_parameters():
            parameter.grad = each[name].mean(0)
        optimizer.step()
        observer.between(each, inputs, targets)
    observer.end()


@training
def sparse_gradients(observer):
    model = nn.Sequential(nn.EmbeddingBag(50, 6, sparse=True), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs = torch.randint(0, 50, (16, 4))
        targets = inputs.float().mean(1, keepdim=True) / 50
        optimizer.zero_grad()
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        observer.between(loss, inputs, targets)
    observer.end()


@training
def complex_numbers(observer):
    model = nn.Linear(6, 2, dtype=torch.complex64)
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs = torch.randn(16, 6, dtype=torch.complex64)
        optimizer.zero_grad()
        loss = (model(inputs) - inputs[:, :2]).abs().square().mean()
        loss.backward()
        optimizer.step()
        observer.between(torch.view_as_real(loss[None].cfloat()), inputs)
    observer.end()


@training
def policy_gradient(observer):
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        terms = []
        for _ in range(5):
            chances = torch.distributions.Categorical(logits=model(torch.randn(4)))
            action = chances.sample()
            terms.append(-chances.log_prob(action) * np.random.rand())
        loss = torch.stack(terms).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        observer.between(loss, torch.randn(3, 4))
    observer.end()


@training
def loading_workers(observer):
    model = mlp()
    optimizer = sgd(model)
    inputs = torch.randn(48, 6)
    dataset = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    observer.begin(model, optimizer)
    loader = DataLoader(dataset, 16, shuffle=True, num_workers=2, persistent_workers=True)
    for _ in range(2):
        for rows, targets in loader:
            optimizer.zero_grad()
            loss = mse_loss(model(rows), targets)
            loss.backward()
            optimizer.step()
            observer.between(loss, rows, targets)
    observer.end()
    loader._iterator._shutdown_workers()


@training
def errors_in_the_loop(observer):
    model = mlp()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for number in range(STEPS):
        inputs, targets = data()
        optimizer.zero_grad()
        try:
            if number == 1:
                model(inputs[:, 1:])
            if number == 3:
                model(inputs).sum().backward(torch.ones(2))
        except RuntimeError:
            pass
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        if number == 4:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                continue
        optimizer.step()
        observer.between(loss, inputs, targets)
    observer.end()


@training
def half_precision(observer):
    model = plain().to(torch.bfloat16)
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for _ in range(STEPS):
        inputs, targets = (one.bfloat16() for one in data())
        optimizer.zero_grad()
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        observer.between(loss, inputs, targets)
    observer.end()


@training
def compiled(observer):
    usual(observer, torch.compile(plain(), backend="aot_eager"))


@training
def loop_in_a_thread(observer):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(usual, observer, mlp()).result()


@training
def passes_in_a_thread(observer):
    model = mlp()
    optimizer = sgd(model)
    observer.begin(model, optimizer)

    def run(inputs, targets):
        loss = mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    with ThreadPoolExecutor(1) as pool:
        for _ in range(STEPS):
            inputs, targets = data()
            optimizer.zero_grad()
            loss = pool.submit(run, inputs, targets).result()
            optimizer.step()
            observer.between(loss, inputs, targets)
    observer.end()
