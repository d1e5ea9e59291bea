/* Packs histograms into blobs; tracker_adapters.store.segments.histogram_codec says what a blob holds. */

#include <string.h>

#include "kernels.h"

static uint8_t *put_varint(uint8_t *at, uint64_t value) {
    for (; value >= 128; value >>= 7) *at++ = (uint8_t)(value | 128);
    *at++ = (uint8_t)value;
    return at;
}

/* Writes one histogram, at most MAX_HEAD_BYTES and MAX_BIN_BYTES for each of its bins; returns where it ends.
 *
 *   tallies   (TALLIES,)
 *   moments   (MOMENTS,)
 *   bins      (n,): ascending, below BINS
 *   counts    (n,): at least 1
 */
uint8_t *pack_histogram(const uint64_t *tallies, const double *moments, const uint16_t *bins, const uint64_t *counts,
                        int64_t n, uint8_t *at) {
    int64_t next = 0;
    memcpy(at, moments, 8 * MOMENTS);
    at += 8 * MOMENTS;
    for (int i = 0; i < TALLIES; i++) at = put_varint(at, tallies[i]);
    for (int64_t i = 0; i < n; i++) {
        int64_t gap = bins[i] - next;
        next = bins[i] + 1;
        at = put_varint(at, ((counts[i] - 1) << 1) | (gap > 0));
        if (gap > 0) at = put_varint(at, (uint64_t)(2 * (gap - 1)));
    }
    return at;
}
