/* Measures the tensors of a file and prints what it found, byte for byte: FILE SHARES. Made for any processor.
 *
 * The file has, for each tensor, a head of four int64 (kind, length, whether there is a before, the offset by which it
 * is unaligned), its elements, and those before.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum { MOST = 100000 };

static segment segments[MOST];
static int kinds[MOST];

static void *elements(FILE *file, int64_t bytes, int64_t offset) {
    char *memory = malloc(bytes + 64);
    if (!memory || fread(memory + offset, 1, bytes, file) != (size_t)bytes) exit(3);
    return memory + offset;
}

static void measure_all(int64_t n, int64_t shares) {
    job made;
    if (!cut(segments, n, shares, &made)) exit(4);
    int64_t rows = made.n_tensors + made.n_pairs, used = measure_shares(&made, NULL, 1);
    if (used < 0) exit(5);
    columns out = {calloc(rows, 8 * TALLIES), calloc(2 * rows, 8), calloc(rows, 8), calloc(rows, 8 * MOMENTS),
                   calloc(rows, 8)};
    uint16_t *bins = calloc(used + 1, 2);
    uint64_t *counts = calloc(used + 1, 8), *dense = calloc(BINS, 8);
    used = join_shares(&made, &out, bins, counts, dense);
    fwrite(out.tallies, 8 * TALLIES, rows, stdout);
    fwrite(out.signs, 8, 2 * rows, stdout);
    fwrite(out.ends, 8, rows, stdout);
    fwrite(out.moments, 8 * MOMENTS, rows, stdout);
    fwrite(out.l1, 8, rows, stdout);
    fwrite(bins, 2, used, stdout);
    fwrite(counts, 8, used, stdout);
}

int main(int n_arguments, char **arguments) {
    FILE *file = n_arguments == 3 ? fopen(arguments[1], "rb") : NULL;
    int64_t head[4], n = 0;
    if (!file) return 2;
    for (; fread(head, sizeof head, 1, file) == 1 && n < MOST; n++) {
        int64_t bytes = head[1] * (head[0] & DOUBLE ? 8 : 4);
        void *after = elements(file, bytes, head[3]), *before = head[2] ? elements(file, bytes, head[3]) : NULL;
        segments[n] = (segment){n, (int64_t)(intptr_t)after, head[1], head[0], (int64_t)(intptr_t)before};
        kinds[n] = head[0] & DOUBLE;
    }
    const char *names[3];
    use_instructions(names[instruction_sets(names) - 1]);
    measure_all(n, atoi(arguments[2]));
    for (int64_t i = 0; i < n; i++) {
        spread_row row;
        if (!segments[i].length) continue;
        if (!measure_spread((void *)(intptr_t)segments[i].address, segments[i].length, kinds[i], NULL, NULL, 1, &row)) exit(6);
        if (row.count == 0) row = (spread_row){0};  /* something is not finite: the rest means nothing */
        fwrite(&row, sizeof row, 1, stdout);
    }
    return 0;
}
