/* What the files of the compiled code share. It uses C11 with the vectors of GCC and Clang, and nothing of libm. */

#ifndef STEPSCOPE_KERNELS_H
#define STEPSCOPE_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef void (*team)(void (*work)(void *), void *argument, unsigned size, unsigned flags);  /* OpenMP's GOMP_parallel */

enum { BLOCK = 2048 };  /* elements: a block and its copies stay in the first-level cache */
enum { BINS = 4096, SIGN_BIN = 2048, OVERFLOW_BIN = 2040, SHIFT = 20 };  /* as tracker_adapters.histograms.layout */
enum { COUNT, NANS, POS_INF, NEG_INF, ZERO, POS_OVERFLOW, NEG_OVERFLOW, POS_UNDERFLOW, NEG_UNDERFLOW, TALLIES };
enum { MIN, MAX, MEAN, M2, MOMENTS };

/* Joins mean and m2 of two parts by the pairwise formula, as tracker_adapters.histograms.moments does for arrays.
 *
 * Both means may be taken relative to one number. n_theirs is at least 1; with n_ours 0, and 0 for its mean and m2, the
 * other part is the result, as long as the square of its mean stays within double. */
static inline void join_mean_and_m2(double n_ours, double *mean, double *m2, double n_theirs, double other_mean,
                                    double other_m2) {
    double share = n_theirs / (n_ours + n_theirs), delta = other_mean - *mean, both = *mean + delta * share;
    if (!isfinite(both)) both = *mean * (1 - share) + other_mean * share;  /* means at the two ends of double */
    *mean = both;
    *m2 += other_m2 + delta * delta * (n_ours * share);
}

/* ---- instruction_sets.c: what is compiled for several instruction sets ---- */

enum { COUNTERS = 4, COUNTERS_SIZE = BINS + 16 };

typedef struct {
    uint32_t histogram[COUNTERS][COUNTERS_SIZE];
    double kept[BLOCK];
    float narrowed[BLOCK];
} scratch;

typedef struct {  /* what is known of a tensor's elements so far */
    int64_t tally[TALLIES];
    int64_t zeros[2];                             /* of float32: +0.0 and -0.0 */
    struct { int64_t lowest, highest; } span[2];  /* of occupied bins, of positive and of negative elements */
    double finite, shift, mean, m2, l1, min, max; /* the mean is less the shift, which is the first element */
} row_state;

typedef struct {
    double count, mean, m2, min, max;  /* the count is 0 where something is not finite */
} spread_row;

typedef void (*add_elements)(const void *values, const void *before, int64_t size, scratch *room, row_state *row);

typedef struct {
    const char *name;
    /* Of float32 and of float64. */
    add_elements add[2];
    void (*spread[2])(const void *values, void *copy, int64_t size, spread_row *row);
} instruction_set;

extern const instruction_set *instructions;  /* what is used: the widest that the processor has */

int instruction_sets(const char *names[3]);  /* those of this processor, the narrowest first; returns how many */
int use_instructions(const char *name);      /* returns 0 where the processor lacks them */

/* ---- rows.c ---- */

enum { DOUBLE = 1, PAIR = 2 };

typedef struct {
    int64_t row, address, length;
    int64_t kind;  /* DOUBLE: of float64, not float32. PAIR: measured as it is, and its difference from before */
    int64_t before;
} segment;

typedef struct {  /* what was found out about a tensor */
    int64_t tally[TALLIES];
    double moments[MOMENTS], l1;
    int64_t signs[2];  /* how many are negative, and positive */
    int64_t end;       /* where its bins end, from the first that was measured with it on */
} measured;

int64_t measure_rows(const segment *segments, int64_t n, measured *rows, uint16_t *bins, uint64_t *counts);

/* ---- shares.c ---- */

typedef struct {
    int64_t first, room, used;  /* the first piece; where its bins begin in memory; how many bins it has, or -1 */
} share;

typedef struct {
    int64_t next, n_shares, n_parts, n_tensors, n_pairs;  /* the pairs are among the tensors */
    share *shares;
    segment *pieces;   /* segments whose rows are parts of tensors */
    int64_t *tensors;  /* of each part; the differences of pairs come after all others */
    measured *parts;
    uint16_t *bins;
    uint64_t *counts;
} job;

typedef struct {
    int64_t *tallies, *signs, *ends;
    double *moments, *l1;
} columns;

int cut(const segment *segments, int64_t n, int64_t number, job *made);
int64_t measure_shares(job *made, team start, unsigned threads);
int64_t join_shares(const job *made, const columns *out, uint16_t *bins, uint64_t *counts, uint64_t *dense);
void free_job(job *made);

/* ---- spread.c ---- */

int measure_spread(const void *values, int64_t size, int is_double, void *copy, team start, unsigned threads,
                   spread_row *whole);

/* ---- samples.c and gathering.c ---- */

/* An element as double; copied, as no address needs to be aligned. */
static inline double element_of(const void *values, int64_t is_double, int64_t at) {
    double wide;
    float narrow;
    if (is_double) return memcpy(&wide, (const char *)values + at * 8, 8), wide;
    return memcpy(&narrow, (const char *)values + at * 4, 4), (double)narrow;
}

/* ---- samples.c ---- */

#define MOST_SAMPLED (INT64_C(1) << 32)  /* elements */

typedef struct {  /* as Python hands it in: elements in row-major order */
    const void *values;
    int64_t is_double, rows, columns;
} sample;

typedef struct {
    double zeros, mean, std, column_std;  /* the share of zeros; deviations divide by how many there are */
} sample_row;

int describe_samples(const sample *samples, int64_t n, sample_row *found);

/* ---- gathering.c ---- */

typedef struct {  /* as Python hands it in */
    const void *values;
    int64_t is_double, elements;
} gathered;

int64_t gather(const gathered *tensors, int64_t n, const double *shares, int64_t n_shares, double *found);

/* ---- merging.c ---- */

int64_t merge_entries(uint16_t *bins, uint64_t *counts, int64_t start, int64_t stop, uint64_t *dense);
int64_t merge_rows(const int64_t *rows, int64_t n, const int64_t *ends, const uint16_t *bins, const uint64_t *counts,
                   uint16_t *merged_bins, uint64_t *merged_counts, uint64_t *dense);

/* ---- packing.c ---- */

enum { MAX_HEAD_BYTES = 8 * MOMENTS + 10 * TALLIES, MAX_BIN_BYTES = 10 + 2 };

uint8_t *pack_histogram(const uint64_t *tallies, const double *moments, const uint16_t *bins, const uint64_t *counts,
                        int64_t n, uint8_t *at);

#endif
