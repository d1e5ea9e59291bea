/* Gathers a few elements of each of many tensors, at places that are shares of the tensor's length. */

#include "kernels.h"

static int64_t place_of(const gathered *here, double share) {
    int64_t place = (int64_t)(share * (double)here->elements);
    return place < here->elements ? place : here->elements - 1;  /* rounded up from just below */
}

static double element(const gathered *here, int64_t at) { return element_of(here->values, here->is_double, at); }

/* Writes n_shares elements of each tensor, or all if it has no more; returns how many. */
int64_t gather(const gathered *tensors, int64_t n, const double *shares, int64_t n_shares, double *found) {
    double *at = found;
    for (int64_t i = 0; i < n; i++) {
        const gathered *here = &tensors[i];
        if (here->elements <= n_shares) {
            for (int64_t k = 0; k < here->elements; k++) *at++ = element(here, k);
            continue;
        }
        for (int64_t k = 0; k < n_shares; k++)  /* far apart */
            __builtin_prefetch((const char *)here->values + place_of(here, shares[k]) * (here->is_double ? 8 : 4));
        for (int64_t k = 0; k < n_shares; k++) *at++ = element(here, place_of(here, shares[k]));
    }
    return at - found;
}
