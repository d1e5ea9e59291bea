"""Of machines that open a new run at one place at once, at most one gets it."""

import threading
from itertools import combinations

import pytest
from tracker_adapters.errors import RunExistsError
from tracker_adapters.remote import sealed
from tracker_adapters.remote.claim import claim, release
from tracker_adapters.remote.opening import prepare
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.sealed import SealedIndex

STEPS = 5
"""How often a claim reads or writes, if it wins."""
LIMIT_S = 20.0


class Opening(RemotePlace):
    """A place at which one machine opens a run, read or written once for each turn that it is given."""

    def __init__(self, url):
        super().__init__(url)
        self.has_won = None
        self._turn, self._moved = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._claim, daemon=True)
        self._thread.start()

    def move(self):
        """Lets it take one step; behind its end nothing happens."""
        self._turn.release()
        assert self._moved.acquire(timeout=LIMIT_S)

    def read(self, name):
        assert self._turn.acquire(timeout=LIMIT_S)
        found = super().read(name)
        self._moved.release()
        return found

    def write(self, name, content):
        assert self._turn.acquire(timeout=LIMIT_S)
        super().write(name, content)
        self._moved.release()

    def end(self):
        self._turn.release()  # who loses last looks who has won
        self._thread.join(LIMIT_S)
        assert self.has_won is not None
        return self.has_won

    def _claim(self):
        try:
            claim(self)
            self.has_won = True
        except RunExistsError:
            self.has_won = False
        self._moved.release(STEPS)


def test_in_no_order_of_their_steps_do_two_win(place):
    wins = []
    for mine in combinations(range(2 * STEPS), STEPS):
        openings = [Opening(place.url) for _ in range(2)]
        for turn in range(2 * STEPS):
            openings[turn in mine].move()
        wins.append(sum(one.end() for one in openings))
        release(place)
    assert max(wins) == 1
    assert wins[0] == wins[-1] == 1  # one after the other


def test_a_claimed_place_is_refused_until_the_claim_is_old(place, monkeypatch):
    assert prepare(place.url, resume=False) == ""
    with pytest.raises(RunExistsError, match=r"process \d+ of .* is opening a run at memory://.*wait 3 minutes"):
        prepare(place.url, resume=False)
    monkeypatch.setattr(sealed, "WRITER_SILENT_S", 0.0)
    assert prepare(place.url, resume=False) == ""


def test_a_claim_is_gone_once_there_is_an_index(place):
    claim(place)
    assert len(place.names()) == 2
    SealedIndex(manifest={}).write(place, lambda key: None)
    release(place)
    assert place.names() == ["sealed.json"]
    with pytest.raises(RunExistsError):
        prepare(place.url, resume=False)


def test_a_damaged_claim_is_none(place):
    place.write(".claim-taken.json", b"[]")
    claim(place)
