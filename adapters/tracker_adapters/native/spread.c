/* Finds mean, m2 and extremes of memory while it copies it.
 *
 * Threads take shares of a fixed length, so that the result does not depend on how many threads there are; the shares
 * are joined in order.
 */

#include <stdlib.h>

#include "kernels.h"

enum { SHARE = 64 * BLOCK };  /* elements that a thread takes at a time */

typedef struct {
    int64_t next, size;
    const char *values;
    char *copy;
    int is_double;
    spread_row *found;
} spread_job;

static void work(void *argument) {
    spread_job *here = argument;
    for (;;) {
        int64_t turn = __atomic_fetch_add(&here->next, 1, __ATOMIC_SEQ_CST), begin = turn * SHARE;
        if (begin >= here->size) return;
        int64_t size = here->size - begin < SHARE ? here->size - begin : SHARE;
        int64_t offset = begin * (here->is_double ? 8 : 4);
        instructions->spread[here->is_double != 0](here->values + offset, here->copy ? here->copy + offset : 0, size,
                                              &here->found[turn]);
    }
}

/* Measures size > 0 elements, and copies them unless copy is null. The count of the result is 0 where something is not
 * finite or a sum is not. Returns 0 where there is no memory. */
int measure_spread(const void *values, int64_t size, int is_double, void *copy, team start, unsigned threads,
                   spread_row *whole) {
    int64_t n = (size + SHARE - 1) / SHARE;
    spread_row alone, *found = n == 1 ? &alone : malloc(n * sizeof *found);
    if (!found) return 0;
    spread_job made = {0, size, values, copy, is_double, found};
    if (n > 1 && start)
        start(work, &made, threads, 0);
    else
        work(&made);
    *whole = (spread_row){.min = INFINITY, .max = -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        if (found[i].count == 0) {
            whole->count = 0;
            break;
        }
        join_mean_and_m2(whole->count, &whole->mean, &whole->m2, found[i].count, found[i].mean, found[i].m2);
        whole->count += found[i].count;
        whole->min = found[i].min < whole->min ? found[i].min : whole->min;
        whole->max = found[i].max > whole->max ? found[i].max : whole->max;
    }
    if (!isfinite(whole->m2)) whole->count = 0;
    whole->min += 0.0;  /* makes -0.0 positive */
    whole->max += 0.0;
    if (found != &alone) free(found);
    return 1;
}
