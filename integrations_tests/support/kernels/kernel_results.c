/* Gives the tensors of a file to all functions of the kernels, and prints what they found, byte for byte: FILE SHARES.
 * Made for any processor.
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

/* The sign of a NaN is the processor's choice. */
static void fwrite_numbers(const double *numbers, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double number = isnan(numbers[i]) ? (double)NAN : numbers[i];
        fwrite(&number, sizeof number, 1, stdout);
    }
}

static void *elements(FILE *file, int64_t bytes, int64_t offset) {
    char *memory = malloc(bytes + 64);
    if (!memory || fread(memory + offset, 1, bytes, file) != (size_t)bytes) exit(3);
    return memory + offset;
}

/* Merges the histograms of up to eight tensors each, and packs every histogram. */
static void merge_and_pack(const columns *found, const uint16_t *bins, const uint64_t *counts, int64_t n, uint64_t *dense) {
    int64_t order[8], room = n ? found->ends[n - 1] : 0;
    uint16_t *merged_bins = calloc(room + 1, 2);
    uint64_t *merged_counts = calloc(room + 1, 8);
    uint8_t *blob = malloc(MAX_HEAD_BYTES + BINS * MAX_BIN_BYTES);
    for (int64_t begin = 0; begin < n; begin += 8) {
        int64_t size = n - begin < 8 ? n - begin : 8;
        for (int64_t i = 0; i < size; i++) order[i] = begin + size - 1 - i;
        int64_t used = merge_rows(order, size, found->ends, bins, counts, merged_bins, merged_counts, dense);
        fwrite(merged_bins, 2, used, stdout);
        fwrite(merged_counts, 8, used, stdout);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i ? found->ends[i - 1] : 0;
        const uint64_t *tallies = (const uint64_t *)found->tallies + TALLIES * i;
        uint8_t *end = pack_histogram(tallies, found->moments + MOMENTS * i, bins + at, counts + at, found->ends[i] - at, blob);
        fwrite(blob, 1, end - blob, stdout);
    }
    for (int64_t i = 1; i < n; i++) {
        const double *one = found->moments + MOMENTS * (i - 1), *other = one + MOMENTS;
        double joined[2] = {one[MEAN], one[M2]};
        join_mean_and_m2((double)(i % 5), &joined[0], &joined[1], (double)i, other[MEAN], other[M2]);
        fwrite_numbers(joined, 2);
    }
    free(merged_bins), free(merged_counts), free(blob);
}

static void measure_all(int64_t n, int64_t shares) {
    job made;
    if (!cut(segments, n, shares, &made)) exit(4);
    fwrite(made.tensors, 8, made.n_parts, stdout);
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
    merge_and_pack(&out, bins, counts, rows, dense);
}

/* The spread of a tensor while it is copied. */
static void spread(const segment *one) {
    spread_row row;
    int64_t bytes = one->length * (one->kind & DOUBLE ? 8 : 4);
    char *copy = malloc(bytes);
    const void *values = (void *)(intptr_t)one->address;
    if (!measure_spread(values, one->length, one->kind & DOUBLE, copy, NULL, 1, &row)) exit(6);
    if (memcmp(copy, values, bytes)) exit(7);
    if (row.count == 0) row = (spread_row){0};  /* something is not finite: the rest means nothing */
    fwrite(&row, sizeof row, 1, stdout);
    free(copy);
}

/* Each tensor as a matrix of several widths, and a few elements of each. */
static void samples_of(int64_t n) {
    static const int64_t widths[] = {1, 2, 7, 8, 9, 64, 129, 1000};
    enum { SHARES = 64 };
    double shares[SHARES], *few = malloc(SHARES * n * sizeof(double));
    gathered *all = malloc(n * sizeof(gathered));
    for (int64_t i = 0; i < n; i++) {
        const void *values = (void *)(intptr_t)segments[i].address;
        int64_t is_double = segments[i].kind & DOUBLE, size = segments[i].length;
        int64_t columns = widths[i % (int64_t)(sizeof widths / sizeof *widths)];
        sample_row row;
        all[i] = (gathered){values, is_double, size};
        if (size / columns == 0) continue;
        sample one = {values, is_double, size / columns, columns};
        if (!describe_samples(&one, 1, &row)) exit(8);
        fwrite_numbers(&row.zeros, sizeof row / sizeof(double));
    }
    for (int64_t i = 0; i < SHARES; i++) shares[i] = (double)((i * 2654435761u) % 4294967296u) / 4294967296.0;
    fwrite_numbers(few, gather(all, n, shares, SHARES, few));
    free(few), free(all);
}

int main(int n_arguments, char **arguments) {
    FILE *file = n_arguments == 3 ? fopen(arguments[1], "rb") : NULL;
    int64_t head[4], n = 0;
    if (!file) return 2;
    for (; fread(head, sizeof head, 1, file) == 1 && n < MOST; n++) {
        int64_t bytes = head[1] * (head[0] & DOUBLE ? 8 : 4);
        void *after = elements(file, bytes, head[3]), *before = head[2] ? elements(file, bytes, head[3]) : NULL;
        segments[n] = (segment){n, (int64_t)(intptr_t)after, head[1], head[0], (int64_t)(intptr_t)before};
    }
    const char *names[3];
    use_instructions(names[instruction_sets(names) - 1]);
    measure_all(n, atoi(arguments[2]));
    for (int64_t i = 0; i < n; i++)
        if (segments[i].length) spread(&segments[i]);
    samples_of(n);
    return 0;
}
