/* Merges histograms: the counts of each bin are added up in a dense array, which is then read out in order. */

#include "kernels.h"

/* Appends the occupied bins from lowest to highest and empties the array; returns how many there are. */
static int64_t read_out(uint64_t *dense, int64_t lowest, int64_t highest, uint16_t *bins, uint64_t *counts) {
    int64_t n = 0;
    for (int64_t bin = lowest; bin <= highest; bin++)
        if (dense[bin]) {
            bins[n] = (uint16_t)bin;
            counts[n++] = dense[bin];
            dense[bin] = 0;
        }
    return n;
}

/* Puts the entries of several histograms, one after the other, into one, in place; returns where it ends. The bins are
 * below BINS; dense (BINS,) is zero before and after. */
int64_t merge_entries(uint16_t *bins, uint64_t *counts, int64_t start, int64_t stop, uint64_t *dense) {
    int64_t lowest = BINS, highest = -1;
    for (int64_t i = start; i < stop; i++) {
        dense[bins[i]] += counts[i];
        lowest = bins[i] < lowest ? bins[i] : lowest;
        highest = bins[i] > highest ? bins[i] : highest;
    }
    return start + read_out(dense, lowest, highest, bins + start, counts + start);
}

/* Merges the histograms of n rows, of which each has its own part of bins and counts up to its end; returns how many
 * entries the merged one has. There is room for as many as they have together. */
int64_t merge_rows(const int64_t *rows, int64_t n, const int64_t *ends, const uint16_t *bins, const uint64_t *counts,
                   uint16_t *merged_bins, uint64_t *merged_counts, uint64_t *dense) {
    int64_t lowest = BINS, highest = -1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t place = rows[i] ? ends[rows[i] - 1] : 0; place < ends[rows[i]]; place++) {
            dense[bins[place]] += counts[place];
            lowest = bins[place] < lowest ? bins[place] : lowest;
            highest = bins[place] > highest ? bins[place] : highest;
        }
    return read_out(dense, lowest, highest, merged_bins, merged_counts);
}
