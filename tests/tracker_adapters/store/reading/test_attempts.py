"""Which rows a later attempt replaces, compared with the rule as it reads."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.store.reading.attempts import Replacements, latest

# Rank, attempt, step, and whether it lies in a compacted segment.
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 12), st.booleans()), max_size=40)


def is_replaced(row, rows):
    rank, attempt, step, _ = row
    later = [other for other in rows if other[0] == rank and other[1] > attempt]
    if any(other[2] == step for other in later):
        return True
    spans = [[o[2] for o in later if o[1] == number and o[3]] for number in range(1, 5)]
    return any(span and min(span) <= step <= max(span) for span in spans)


@given(ROWS)
def test_the_latest_rows_are_those_that_no_later_attempt_replaced(rows):
    ranks, attempts, steps, compacted = np.array(rows, np.int64).reshape(-1, 4).T
    seqs = np.arange(len(rows))[::-1]

    found = latest(seqs=seqs, attempts=attempts, steps=steps, ranks=ranks, compacted=compacted.astype(np.bool_))

    kept = [place for place, row in enumerate(rows) if not is_replaced(row, rows)]
    assert found.tolist() == sorted(kept, key=lambda place: (rows[place][2], rows[place][0], seqs[place]))


@given(ROWS)
def test_the_first_attempt_replaces_nothing_and_need_not_be_told(rows):
    _, attempts, steps, _ = np.array(rows, np.int64).reshape(-1, 4).T
    later = attempts > 1

    everything = Replacements(attempts=attempts, steps=steps, compacted={})
    without = Replacements(attempts=attempts[later], steps=steps[later], compacted={})

    expected = everything.replaced(attempts=attempts, steps=steps)
    np.testing.assert_array_equal(without.replaced(attempts=attempts, steps=steps), expected)
