"""Bisection against simulated sinks: what is refused is found, and an outage costs nothing."""

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st
from tracker_adapters.delivery.bisection import CONVICTIONS, WEAK_CONVICTIONS, Bisection
from tracker_adapters.store.reading.tail import MAX_ROWS


@dataclass
class Simulation:
    """A sink that refuses some of the numbers 1 to ``last``, and does not work at some of its calls."""

    last: int
    poison: frozenset[int]
    outages: frozenset[int] = frozenset()
    same_kind: bool = True
    calls: int = 0
    taken: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)

    def takes(self, first, last):
        self.calls += 1
        return self.calls not in self.outages and not any(first <= number <= last for number in self.poison)

    def another_works(self, suspect):
        """Whether the sink takes some artifact that is not the suspect and not refused itself."""
        return self.takes(0, 0)

    def run(self):
        found, seq = Bisection(), 0
        while seq < self.last:
            assert self.calls < 100_000
            found = Bisection.decode(found.encode())  # as a process that was started again would go on
            first, last = seq + 1, min(seq + found.rows, self.last)
            if first == last == found.suspect and not found.proven:
                if found.is_proven_to_refuse("text"):
                    self.skipped.append(first)
                    found.skipped("text")
                    seq = last
                    continue
                if self.another_works(first):
                    found.took_another(same_kind=self.same_kind)
                continue
            if self.takes(first, last):
                self.taken += range(first, last + 1)
                found.accepted(last - first + 1, {"scalar"})
                seq = last
            else:
                found.failed(first, last)
        return found


@given(
    st.integers(1, 30_000),
    st.sets(st.integers(1, 30_000), max_size=6),
    st.builds(lambda first, calls: range(first, first + calls), st.integers(1, 200), st.integers(0, 60)),
    st.sets(st.integers(1, 200), max_size=CONVICTIONS - 2),
    st.booleans(),
)
@example(128, {1, 12}, range(26, 27), {28}, True)
def test_exactly_what_is_refused_is_skipped_whatever_fails_beside_it(last, poison, outage, failing_calls, same_kind):
    """An outage of any length counts as one failure of whatever artifact it meets, each other failing call as one."""
    expected = sorted(number for number in poison if number <= last)
    sink = Simulation(last, frozenset(poison), frozenset(failing_calls).union(outage), same_kind)
    sink.run()
    assert sink.skipped == expected
    assert sink.taken == [number for number in range(1, last + 1) if number not in poison]


@given(
    st.integers(1, 30_000),
    st.sets(st.integers(1, 30_000), max_size=6),
    st.sets(st.integers(1, 200), max_size=60),
    st.booleans(),
)
def test_calls_that_fail_at_random_cost_an_artifact_only_where_each_failure_met_it(
    last, poison, failing_calls, same_kind
):
    sink = Simulation(last, frozenset(poison), frozenset(failing_calls), same_kind)
    sink.run()
    assert sorted(sink.taken + sink.skipped) == list(range(1, last + 1))
    assert not poison & set(sink.taken)
    unlucky = set(sink.skipped) - poison
    assert len(unlucky) * CONVICTIONS <= len(failing_calls)


def test_one_refused_among_ten_thousand_is_found_in_a_few_dozen_calls():
    sink = Simulation(MAX_ROWS, frozenset({7777}))
    end = sink.run()
    assert sink.skipped == [7777]
    assert sink.calls < 60
    assert end.rows > 1000  # it comes back to large batches


def test_a_sink_that_takes_nothing_is_down_and_nothing_is_skipped():
    found = Bisection(rows=1)
    for _ in range(100):
        found.failed(5, 5)
        assert not found.is_proven_to_refuse("text")


def failures_until_proven(found, suspect, *, same_kind):
    failures = 0
    while not found.is_proven_to_refuse("text"):
        found.failed(suspect, suspect)
        failures += 1
        if not found.is_proven_to_refuse("text"):
            found.took_another(same_kind=same_kind)
    return failures


def test_an_artifact_alone_of_its_kind_needs_more_failures_than_one_among_its_like():
    assert failures_until_proven(Bisection(rows=1), 5, same_kind=True) == CONVICTIONS
    assert failures_until_proven(Bisection(rows=1), 5, same_kind=False) == WEAK_CONVICTIONS


def test_the_next_one_of_a_kind_that_was_refused_costs_little_until_the_kind_is_taken_again():
    found = Bisection(rows=1)
    failures_until_proven(found, 5, same_kind=False)
    found.skipped("text")
    found.accepted(1, {"scalar"})
    assert failures_until_proven(found, 7, same_kind=False) == CONVICTIONS
    found.skipped("text")
    found.accepted(1, {"text"})
    assert failures_until_proven(found, 9, same_kind=False) == WEAK_CONVICTIONS


def test_a_sink_that_hangs_gets_half_as_much_at_once():
    found = Bisection()
    assert found.failed(1, 10_000, hung=True)
    assert found.rows == 5000
    found.accepted(5000, {"scalar"})
    assert found == Bisection()


def test_all_well_is_no_text():
    assert Bisection().encode() == ""
    assert Bisection.decode("") == Bisection()
