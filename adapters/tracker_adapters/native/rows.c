/* Measures tensors that lie in one or several segments of memory each: statistics, and a histogram with fixed bins.
 *
 * One pass over the memory: the instruction set's loops (elements.h) add block after block to a row's state. A bin is
 * the sign, the exponent and the top three bits of the mantissa of a float, so that counting is a shift and an addition.
 * What has no bin was counted on the way: NaN and infinity, zero, and what float32 cannot hold.
 */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum { SPARES = 64 };

static scratch *spares[SPARES];  /* rooms for two rows each, whose histograms are empty */

/* Returns a room for two rows, or null where there is no memory. Clearing a new one takes longer than a small tensor. */
static scratch *take_room(void) {
    for (int i = 0; i < SPARES; i++) {
        scratch *room = __atomic_exchange_n(&spares[i], NULL, __ATOMIC_SEQ_CST);
        if (room) return room;
    }
    return calloc(2, sizeof(scratch));  /* memory that is never used costs nothing */
}

/* Keeps a room, whose histograms are empty again, for the next call in any thread. */
static void leave_room(scratch *room) {
    for (int i = 0; i < SPARES; i++) {
        scratch *none = NULL;
        if (__atomic_compare_exchange_n(&spares[i], &none, room, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
    }
    free(room);
}

/* Returns the elements in a bin and empties it. */
static inline int64_t take(uint32_t histogram[COUNTERS][COUNTERS_SIZE], int64_t bin) {
    int64_t size = 0;
    for (int i = 0; i < COUNTERS; i++) {
        size += histogram[i][bin];
        histogram[i][bin] = 0;
    }
    return size;
}

/* Appends the occupied bins and empties the histogram for the next tensor; returns where they end. May write one entry
 * behind them: there is no branch on whether a bin is empty, which the processor could not guess. */
static int64_t collect(scratch *room, row_state *row, int64_t signs[2], uint16_t *bins, uint64_t *counts, int64_t end) {
    for (int sign = 0; sign < 2; sign++) {
        int64_t lowest = row->span[sign].lowest, highest = row->span[sign].highest, total = 0, first = sign * SIGN_BIN;
        if (lowest == first) {
            int64_t size = take(room->histogram, lowest++) - row->zeros[sign];
            total += size;
            bins[end] = (uint16_t)first;
            counts[end] = (uint64_t)size;
            end += size > 0;
        }
        if (highest == first + OVERFLOW_BIN) {
            row->tally[POS_OVERFLOW + sign] = take(room->histogram, highest--);
            total += row->tally[POS_OVERFLOW + sign];
        }
        for (int64_t bin = lowest; bin <= highest; bin++) {
            int64_t size = take(room->histogram, bin);
            total += size;
            bins[end] = (uint16_t)bin;
            counts[end] = (uint64_t)size;
            end += size > 0;
        }
        signs[1 - sign] = total + row->tally[POS_UNDERFLOW + sign];
    }
    return end;
}

/* Mean and m2 where sums of differences leave double: divided first, in two passes. Never with float. */
static void wide_moments(const segment *segments, int64_t n, int subtracts, double count, double *mean, double *m2) {
    typedef double element __attribute__((aligned(1), may_alias));
    *mean = *m2 = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int64_t i = 0; i < n; i++) {
            const element *values = (const element *)segments[i].address;
            const element *before = subtracts ? (const element *)segments[i].before : NULL;
            for (int64_t j = 0; j < segments[i].length; j++) {
                double value = before ? values[j] - before[j] : values[j];
                if (!isfinite(value)) continue;
                if (turn == 0)
                    *mean += value / count;
                else
                    *m2 += (value - *mean) * (value - *mean);
            }
        }
}

/* Adds a segment to a row's state, and the difference of a pair to that of the next row. */
static void add(const segment *here, scratch *room, row_state *states) {
    add_elements add_to = instructions->add[here->kind & DOUBLE];
    int64_t bytes = here->kind & DOUBLE ? 8 : 4;
    if (!(here->kind & PAIR)) {
        add_to((const void *)here->address, (const void *)here->before, here->length, room, states);
        return;
    }
    /* By turns, block after block: the second reads the elements from the first-level cache. */
    for (int64_t start = 0; start < here->length; start += BLOCK) {
        int64_t size = here->length - start < BLOCK ? here->length - start : BLOCK;
        const void *values = (const void *)(here->address + start * bytes);
        add_to(values, NULL, size, &room[0], &states[0]);
        add_to(values, (const void *)(here->before + start * bytes), size, &room[1], &states[1]);
    }
}

/* Measures whole rows, which lie in n consecutive segments. A pair is two rows.
 *
 *   rows     of all rows, those that are measured here included
 *   bins     room for BINS or as many as the row has elements, for each row, and one more
 *   counts   likewise
 *
 * Returns how many bins are occupied in all, or -1 where there was no memory. */
int64_t measure_rows(const segment *segments, int64_t n, measured *rows, uint16_t *bins, uint64_t *counts) {
    scratch *room = take_room();
    if (!room) return -1;
    row_state states[2];
    int64_t start = 0, end = 0;
    for (int64_t i = 0; i < n; i++) {
        const segment *here = &segments[i];
        int is_pair = (here->kind & PAIR) != 0;
        if (start == i)
            for (int k = 0; k <= is_pair; k++)
                states[k] = (row_state){.min = INFINITY, .max = -INFINITY, .span = {{BINS, -1}, {BINS, -1}}};
        add(here, room, states);
        if (i + 1 < n && segments[i + 1].row == here->row) continue;
        for (int k = 0; k <= is_pair; k++) {
            row_state *state = &states[k];
            measured *row = &rows[here->row + k];
            double mean = state->shift + state->mean, m2 = state->m2;
            if (here->kind & DOUBLE && !(isfinite(mean) && isfinite(m2)))
                wide_moments(segments + start, i + 1 - start, k == is_pair, state->finite, &mean, &m2);
            /* Adding zero makes -0.0 positive. */
            *row = state->finite
                       ? (measured){.moments = {state->min + 0.0, state->max + 0.0, mean, m2}, .l1 = state->l1}
                       : (measured){.moments = {NAN, NAN, NAN, 0}};
            row->end = end = collect(&room[k], state, row->signs, bins, counts, end);
            memcpy(row->tally, state->tally, sizeof state->tally);
        }
        start = i + 1;
    }
    leave_room(room);
    return end;
}
