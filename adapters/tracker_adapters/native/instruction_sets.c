/* Compiles the loops over elements for several instruction sets, and chooses one when the program runs.
 *
 * On x86-64 there are three: what every such processor has, AVX2, and AVX-512. Elsewhere there is one, and the compiler
 * makes the best of it (NEON on arm64). All give the same bits; elements.h says why.
 */

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels.h"

enum { LANE_BYTES = 128, DOUBLES = LANE_BYTES / sizeof(double) };  /* lanes of a sum in double */

static const double TINY = 1e-28;  /* sums of squares in float lose digits below */

static double add_by_halves(double *lanes, int n) {
    for (int half = n / 2; half; half /= 2)
        for (int k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return lanes[0];
}

/* Lets the spans of occupied bins, one a sign, reach the ends of a block. */
static void widen_spans(row_state *row, const float ends[4]) {
    uint32_t bits[4];
    memcpy(bits, ends, sizeof bits);
    for (int i = 0; i < 4; i++) {
        int64_t bin = bits[i] >> SHIFT;
        int sign = bin >= SIGN_BIN;
        if (bin < row->span[sign].lowest) row->span[sign].lowest = bin;
        if (bin > row->span[sign].highest) row->span[sign].highest = bin;
    }
}

#define JOIN(name, suffix) name##_##suffix

#define ISA(name) JOIN(name, portable)
#define SET_NAME "portable"
#define VECTOR 16
#define WIDEN(floats) __builtin_convertvector(*(const ISA(part) *)(floats), ISA(wide))
#include "instruction_set.h"
#undef ISA
#undef SET_NAME
#undef VECTOR
#undef WIDEN

#ifdef __x86_64__

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define ISA(name) JOIN(name, avx2)
#define SET_NAME "avx2"
#define VECTOR 32
#define WIDEN(floats) _mm256_cvtps_pd(_mm_loadu_ps(floats))
#include "instruction_set.h"
#undef ISA
#undef SET_NAME
#undef VECTOR
#undef WIDEN
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif
#define ISA(name) JOIN(name, avx512)
#define SET_NAME "avx512"
#define VECTOR 64
#define WIDEN(floats) _mm512_cvtps_pd(_mm256_loadu_ps(floats))
#include "instruction_set.h"
#undef ISA
#undef SET_NAME
#undef VECTOR
#undef WIDEN
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static int available(const instruction_set *sets[3]) {
    int n = 0;
    __builtin_cpu_init();
    sets[n++] = &set_portable;
    if (__builtin_cpu_supports("avx2")) sets[n++] = &set_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        sets[n++] = &set_avx512;
    return n;
}

#else

static int available(const instruction_set *sets[3]) {
    sets[0] = &set_portable;
    return 1;
}

#endif

const instruction_set *instructions = &set_portable;

int instruction_sets(const char *names[3]) {
    const instruction_set *sets[3];
    int n = available(sets);
    for (int i = 0; i < n; i++) names[i] = sets[i]->name;
    return n;
}

int use_instructions(const char *name) {
    const instruction_set *sets[3];
    for (int i = available(sets) - 1; i >= 0; i--)
        if (strcmp(sets[i]->name, name) == 0) {
            instructions = sets[i];
            return 1;
        }
    return 0;
}
