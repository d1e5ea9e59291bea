/* Statistics of samples: some rows of a tensor in row-major order, of which each column is described, too.
 *
 * All sums are formed in double and in NumPy's order, so that NumPy finds the same bits: up to 128 elements in eight
 * lanes, more than that in two halves; down a column one after the other.
 */

#include <stdlib.h>

#include "kernels.h"

enum { LANES = 8, MOST = 128 };  /* elements that are added without being halved */

static inline double element(const sample *here, int64_t at) { return element_of(here->values, here->is_double, at); }

static double add_few(const double *values, int64_t n) {
    double sum = -0.0, lanes[LANES];
    int64_t at = 0;
    if (n >= LANES) {
        for (int k = 0; k < LANES; k++) lanes[k] = values[k];
        for (at = LANES; at < n - n % LANES; at += LANES)
            for (int k = 0; k < LANES; k++) lanes[k] += values[at + k];
        sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    }
    for (; at < n; at++) sum += values[at];
    return sum;
}

static int64_t half_of(int64_t n) { return n / 2 - n / 2 % LANES; }

static double add(const double *values, int64_t n) {
    if (n <= MOST) return add_few(values, n);
    return add(values, half_of(n)) + add(values + half_of(n), n - half_of(n));
}

/* Adds up n elements from begin on, and counts the zeros among them. */
static double add_elements_of(const sample *here, int64_t begin, int64_t n, int64_t *zeros) {
    if (n > MOST) {
        double first = add_elements_of(here, begin, half_of(n), zeros);
        return first + add_elements_of(here, begin + half_of(n), n - half_of(n), zeros);
    }
    double few[MOST];
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) few[i] = element(here, begin + i);
    for (int64_t i = 0; i < n; i++) found += few[i] == 0;
    *zeros += found;
    return add_few(few, n);
}

/* Adds up the squares of n elements less their mean. */
static double add_squares(const sample *here, int64_t begin, int64_t n, double mean) {
    if (n > MOST) {
        double first = add_squares(here, begin, half_of(n), mean);
        return first + add_squares(here, begin + half_of(n), n - half_of(n), mean);
    }
    double few[MOST];
    for (int64_t i = 0; i < n; i++) few[i] = element(here, begin + i) - mean;
    for (int64_t i = 0; i < n; i++) few[i] *= few[i];
    return add_few(few, n);
}

/* The mean of the columns' standard deviations; means and squares have room for a number for each column. */
static double spread_of_columns(const sample *here, double *means, double *squares) {
    for (int64_t k = 0; k < here->columns; k++) means[k] = squares[k] = 0;
    for (int64_t row = 0; row < here->rows; row++)
        for (int64_t k = 0; k < here->columns; k++) means[k] += element(here, row * here->columns + k);
    for (int64_t k = 0; k < here->columns; k++) means[k] /= (double)here->rows;
    for (int64_t row = 0; row < here->rows; row++)
        for (int64_t k = 0; k < here->columns; k++) {
            double centred = element(here, row * here->columns + k) - means[k];
            squares[k] += centred * centred;
        }
    for (int64_t k = 0; k < here->columns; k++) squares[k] = sqrt(squares[k] / (double)here->rows);
    return add(squares, here->columns) / (double)here->columns;
}

/* Describes samples, each of at least one element; returns 0 where there is no memory. */
int describe_samples(const sample *samples, int64_t n, sample_row *found) {
    int64_t widest = 0;
    for (int64_t i = 0; i < n; i++) widest = samples[i].columns > widest ? samples[i].columns : widest;
    double *means = malloc(2 * widest * sizeof(double) + 1);
    if (!means) return 0;
    for (int64_t i = 0; i < n; i++) {
        const sample *here = &samples[i];
        int64_t size = here->rows * here->columns, zeros = 0;
        sample_row *row = &found[i];
        row->mean = add_elements_of(here, 0, size, &zeros) / (double)size;
        row->zeros = (double)zeros / (double)size;
        row->std = sqrt(add_squares(here, 0, size, row->mean) / (double)size);
        row->column_std = here->columns == 1 ? row->std : spread_of_columns(here, means, means + widest);
    }
    free(means);
    return 1;
}
