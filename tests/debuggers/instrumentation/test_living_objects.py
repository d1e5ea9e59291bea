"""Objects of some classes and of their subclasses, whatever those define."""

import torch

from debuggers.instrumentation.living_objects import living_objects


class Odd(type):
    """Its classes can neither be hashed nor compared."""

    __hash__ = None

    def __eq__(cls, other):
        raise RuntimeError("compared")


class Base:
    def __init__(self):
        self.value = 1


class Below(Base):
    pass


class OddlyBelow(Below, metaclass=Odd):
    pass


class LikeBase:
    """Says that it is one."""

    __class__ = Base

    def __init__(self):
        self.value = 1


def test_those_of_subclasses_are_found_and_those_that_only_say_so_are_not():
    made = [Base(), Below(), OddlyBelow()]
    other = LikeBase()

    found = living_objects(Base)

    assert {id(one) for one in found} == {id(one) for one in made}
    assert isinstance(other, Base)
    assert {id(one) for one in living_objects(LikeBase, Below)} == {id(one) for one in (*made[1:], other)}


def test_what_is_gone_is_not_found():
    one = Base()
    del one
    assert living_objects(Base) == []


def test_schedulers_of_both_families_are_found_after_their_attributes_were_listed():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    steps = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    assert vars(plateau)["optimizer"] is vars(steps)["optimizer"] is optimizer

    kinds = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    found = [one for one in living_objects(*kinds) if one.optimizer is optimizer]

    assert len(found) == 2
