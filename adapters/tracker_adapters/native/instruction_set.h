/* What is compiled for one instruction set: the counting of bins, and elements.h for float and for double.
 *
 * instruction_sets.c includes this file with ISA(name), the name of a function for the instruction set, SET_NAME, its own
 * name, and VECTOR, the bytes of its vectors.
 */

typedef double ISA(wide) __attribute__((vector_size(VECTOR)));
typedef int64_t ISA(wide_bits) __attribute__((vector_size(VECTOR)));
typedef double ISA(wide_part) __attribute__((vector_size(VECTOR), aligned(1), may_alias));
typedef float ISA(part) __attribute__((vector_size(VECTOR / 2), aligned(1), may_alias));

/* As many elements from an address on as there are doubles in a vector. */
static inline __attribute__((always_inline)) ISA(wide) ISA(widen_float)(const void *values) {
    return WIDEN(values);
}

static inline __attribute__((always_inline)) ISA(wide) ISA(widen_double)(const void *values) {
    return *(const ISA(wide_part) *)values;
}

/* Counts the zeros of either sign in a block of float32. */
static void ISA(count_zeros)(const void *block, int size, row_state *row) {
    typedef uint32_t bits __attribute__((aligned(1), may_alias));
    const bits *values = block;
    uint32_t plus = 0, minus = 0;
    for (int i = 0; i < size; i++) {
        plus += values[i] == 0;
        minus += values[i] == 0x80000000u;
    }
    row->zeros[0] += plus;
    row->zeros[1] += minus;
    row->tally[ZERO] += (int64_t)plus + minus;
}

#define ELEMENT float
#define SIGNED int32_t
#define UNSIGNED uint32_t
#define NAME(name) ISA(name##_float)
#include "elements.h"
#undef ELEMENT
#undef SIGNED
#undef UNSIGNED
#undef NAME

#define ELEMENT double
#define SIGNED int64_t
#define UNSIGNED uint64_t
#define NAME(name) ISA(name##_double)
#include "elements.h"
#undef ELEMENT
#undef SIGNED
#undef UNSIGNED
#undef NAME

static const instruction_set ISA(set) = {SET_NAME, {ISA(add_float), ISA(add_double)},
                                         {ISA(spread_float), ISA(spread_double)}};
