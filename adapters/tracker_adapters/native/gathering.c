/* Gathers a few elements of each of many tensors, at places that are shares of the tensor's length. */

#include <string.h>

#include "kernels.h"

static const char *place_of(const gathered *here, double share) {
    int64_t place = (int64_t)(share * (double)here->elements);
    if (place >= here->elements) place = here->elements - 1;  /* rounded up from just below */
    return (const char *)here->values + place * (here->is_double ? 8 : 4);
}

static double element_at(const char *place, int64_t is_double) {
    double wide;  /* copied, as no address needs to be aligned */
    float narrow;
    if (is_double) return memcpy(&wide, place, 8), wide;
    return memcpy(&narrow, place, 4), (double)narrow;
}

/* Writes n_shares elements of each tensor, or all if it has no more; returns how many. */
int64_t gather(const gathered *tensors, int64_t n, const double *shares, int64_t n_shares, double *found) {
    double *at = found;
    for (int64_t i = 0; i < n; i++) {
        const gathered *here = &tensors[i];
        if (here->elements <= n_shares) {
            for (int64_t k = 0; k < here->elements; k++)
                *at++ = element_at((const char *)here->values + k * (here->is_double ? 8 : 4), here->is_double);
            continue;
        }
        for (int64_t k = 0; k < n_shares; k++) __builtin_prefetch(place_of(here, shares[k]));  /* far apart */
        for (int64_t k = 0; k < n_shares; k++) *at++ = element_at(place_of(here, shares[k]), here->is_double);
    }
    return at - found;
}
