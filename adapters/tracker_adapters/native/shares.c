/* Cuts tensors into shares of about the same length, has them measured in one thread or several, and joins the parts.
 *
 * The cut depends on the lengths and on the number of shares alone, so that the result does, too. Threads take share
 * after share until none is left. A tensor that was cut becomes several parts, whose histograms and moments are joined
 * in order.
 */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum { SNAP = 8 };  /* a share may be an eighth longer or shorter, so that no tensor is cut */

static int64_t rows_of(const segment *one) { return one->kind & PAIR ? 2 : 1; }

/* Cuts n segments, ordered by row, into at most number shares. Fills shares and where a further one would begin, pieces
 * and the tensors of their parts; returns 0 where there is no memory. */
int cut(const segment *segments, int64_t n, int64_t number, job *made) {
    int64_t total = 0, n_made = 0, piece = 0, position = 0, room = 0, part = -1, pair = -1;
    int64_t begun = -1;  /* the row whose part is the last one made in this share */
    *made = (job){.shares = malloc((number + 1) * sizeof(share)),
                  .pieces = malloc((n + number) * sizeof(segment)),
                  .tensors = malloc(2 * (n + number) * sizeof(int64_t))};
    share *shares = made->shares;
    if (!shares || !made->pieces || !made->tensors) return 0;
    for (int64_t i = 0; i < n; i++) total += segments[i].length * rows_of(&segments[i]);
    made->n_tensors = segments[n - 1].row + 1;
    int64_t slack = total / number / SNAP;
    shares[0] = (share){0, 0, -1};
    for (int64_t i = 0; i < n; i++) {
        segment rest = segments[i];
        int64_t rows = rows_of(&rest);
        pair += rows == 2 && (i == 0 || rest.row != segments[i - 1].row);
        for (;;) {
            int64_t goal = (n_made + 1) * total / number;
            int64_t size = rest.length;
            int is_full = n_made < number - 1 && position + size * rows > goal + slack;
            if (is_full) size = goal - position > slack ? (goal - position) / rows / BLOCK * BLOCK : 0;
            if (size || !is_full) {
                if (begun != rest.row) {
                    begun = rest.row;
                    made->tensors[part + 1] = rest.row;
                    if (rows == 2) made->tensors[part + 2] = made->n_tensors + pair;
                    part += rows;
                    room += rows;
                }
                made->pieces[piece++] = (segment){part + 1 - rows, rest.address, size, rest.kind, rest.before};
                int64_t bytes = size * (rest.kind & DOUBLE ? 8 : 4);
                rest.address += bytes;
                rest.before += rest.before ? bytes : 0;
                rest.length -= size;
                position += size * rows;
                room += (size < BINS ? size : BINS) * rows;
            }
            if (!is_full) break;
            shares[++n_made] = (share){piece, room, -1};
            begun = -1;
        }
    }
    shares[++n_made] = (share){piece, room, 0};
    made->n_shares = n_made;
    made->n_parts = part + 1;
    made->n_pairs = pair + 1;
    return 1;
}

static void work(void *argument) {
    job *here = argument;
    for (;;) {
        int64_t turn = __atomic_fetch_add(&here->next, 1, __ATOMIC_SEQ_CST);
        if (turn >= here->n_shares) return;
        share *mine = &here->shares[turn];
        mine->used = measure_rows(here->pieces + mine->first, mine[1].first - mine->first, here->parts,
                                  here->bins + mine->room, here->counts + mine->room);
    }
}

/* Measures the shares that were cut, several in a team of threads unless start is null; returns how many bins are
 * occupied in all parts, or -1 where there is no memory. */
int64_t measure_shares(job *made, team start, unsigned threads) {
    int64_t room = made->shares[made->n_shares].room, used = 0;
    made->parts = malloc(made->n_parts * sizeof(measured));
    made->bins = malloc(room * sizeof(uint16_t));
    made->counts = malloc(room * sizeof(uint64_t));
    if (!made->parts || !made->bins || !made->counts) return -1;
    if (made->n_shares > 1 && start)
        start(work, made, threads, 0);
    else
        work(made);
    for (int64_t i = 0; i < made->n_shares; i++) {
        if (made->shares[i].used < 0) return -1;
        used += made->shares[i].used;
    }
    return used;
}

void free_job(job *made) {
    free(made->shares);
    free(made->pieces);
    free(made->tensors);
    free(made->parts);
    free(made->bins);
    free(made->counts);
}

static double n_finite(const int64_t *tally) {
    return (double)(tally[COUNT] - tally[NANS] - tally[POS_INF] - tally[NEG_INF]);
}

/* Adds what was found out about other elements of a tensor. */
static void join(measured *ours, const measured *theirs) {
    double *moments = ours->moments;
    const double *other = theirs->moments;
    double finite = n_finite(ours->tally), other_finite = n_finite(theirs->tally);
    if (finite == 0) {
        memcpy(moments, other, sizeof ours->moments);
    } else if (other_finite != 0) {
        moments[MIN] = other[MIN] < moments[MIN] ? other[MIN] : moments[MIN];
        moments[MAX] = other[MAX] > moments[MAX] ? other[MAX] : moments[MAX];
        join_mean_and_m2(finite, &moments[MEAN], &moments[M2], other_finite, other[MEAN], other[M2]);
    }
    for (int i = 0; i < TALLIES; i++) ours->tally[i] += theirs->tally[i];
    ours->signs[0] += theirs->signs[0];
    ours->signs[1] += theirs->signs[1];
    ours->l1 += theirs->l1;
}

/* Joins the parts of each tensor and of each pair's difference, which come last; returns how many bins they have in all.
 *
 *   out            tallies (n, TALLIES), moments (n, MOMENTS), signs (2, n), l1 (n,), ends (n,)
 *   bins, counts   room for as many as measure_shares returned
 *   dense          zeros (BINS,); null where there is one share
 */
int64_t join_shares(const job *made, const columns *out, uint16_t *bins, uint64_t *counts, uint64_t *dense) {
    int64_t n = made->n_tensors + made->n_pairs, start = 0, end = 0;
    measured row;
    for (int turn = 0; turn < (made->n_pairs ? 2 : 1); turn++) {
        int64_t part = 0, last = -1;
        for (const share *one = made->shares; one < made->shares + made->n_shares; one++) {
            if (one->first == one[1].first) continue;
            const segment *final = &made->pieces[one[1].first - 1];
            for (int64_t begin = one->room; part < final->row + rows_of(final); part++) {
                int64_t tensor = made->tensors[part], size = one->room + made->parts[part].end - begin, at = begin;
                begin += size;
                if ((tensor >= made->n_tensors) != turn) continue;
                if (tensor != last) {
                    start = end;
                    row = made->parts[part];
                } else {
                    join(&row, &made->parts[part]);
                }
                memcpy(bins + end, made->bins + at, size * sizeof(uint16_t));
                memcpy(counts + end, made->counts + at, size * sizeof(uint64_t));
                end += size;
                if (tensor == last) end = merge_entries(bins, counts, start, end, dense);
                last = tensor;
                memcpy(out->tallies + TALLIES * tensor, row.tally, sizeof row.tally);
                memcpy(out->moments + MOMENTS * tensor, row.moments, sizeof row.moments);
                out->signs[tensor] = row.signs[0];
                out->signs[n + tensor] = row.signs[1];
                out->l1[tensor] = row.l1;
                out->ends[tensor] = end;
            }
        }
    }
    return end;
}
