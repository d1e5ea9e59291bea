/* Measures tensors on a GPU, as they lie in its memory. The package's docstring says how; NVRTC compiles this file for
   the device of a training, with KIND, SUBTRACT and SCALE defined, and the tests compile it for the host.

   It includes nothing, is plain C but for the words of CUDA, and writes each fused operation as fmaf: without
   contraction by the compiler, every device finds the same bits. */

#define FLOAT32 0
#define BFLOAT16 1
#define FLOAT16 2
#define FLOAT64 3

#define GROUP (KIND == FLOAT64 ? 4 : 16)    /* elements that a thread has in registers */
#define QUADS (GROUP * (int)sizeof(stored) / 16)
#define ROUND (THREADS * GROUP)
#define FIELDS 6                            /* of a tensor in the table: address, that of what is subtracted, length, */
                                            /* elements of a block, first block, address of the factor */
#define FOUND 8                             /* numbers of a block: see the end of measure_blocks */
#define BINS 4096                           /* sign, exponent and three bits of the mantissa of a float32 */
#define WORDS (BINS + 10)                   /* of a row */
#define KINDS 7                             /* that have no bin, but for zeros */
#define SIGN_BIN 2048
#define OVERFLOW_BIN 2040                   /* exponents of infinities and NaN begin here */

/* Where a row counts what has no bin: see row_format.py. */
#define AT_NAN 4095
#define AT_ZERO 4094
#define AT_PLUS_INFINITY 4090
#define AT_MINUS_INFINITY 4091
#define AT_PLUS_UNDERFLOW 4092
#define AT_MINUS_UNDERFLOW 4093
#define AT_PLUS_OVERFLOW OVERFLOW_BIN
#define AT_MINUS_OVERFLOW (SIGN_BIN + OVERFLOW_BIN)

#ifdef __cplusplus
#define KERNEL extern "C" __global__
#endif

typedef long long i64;

#if defined(__CUDACC_RTC__) && KIND == FLOAT16
static __device__ float float_of_half(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
#endif

#if KIND == FLOAT64
typedef double real;
typedef double stored;
#define fused fma
#define smaller fmin /* of NaN and a number, they are the number */
#define larger fmax
#define magnitude fabs
#define LARGEST 1.7976931348623157e308
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)
#define MANY 1e300                          /* sums below it have not overflowed */
#define FEW 1e-100                          /* squares far below it vanish */
#else
typedef float real;
#define fused fmaf
#define smaller fminf /* of NaN and a number, they are the number */
#define larger fmaxf
#define magnitude fabsf
#define LARGEST 3.4028234663852886e38f
#define INFINITE __int_as_float(0x7f800000)
#define MANY 1e38
#define FEW 1e-12
#if KIND == FLOAT32
typedef float stored;
#else
typedef unsigned short stored;
#endif
#endif

typedef struct {
    real sum, lost_sum, squares, lost_squares, magnitudes, lost_magnitudes, low, high;
    int n, zeros;                           /* of what is not counted otherwise */
} sums_t;

/* The centre that is subtracted and the power of two that scales, for squares that neither overflow nor vanish. */
typedef struct {
    real factor, origin;
    int exponent;
} scale_t;

typedef struct {
    double sum, squares, magnitudes;
    real low, high;
    int n, zeros, binned, not_finite;
} total_t;

/* The memory that the threads of a block share. */
typedef struct {
    unsigned counters[BINS + 1];            /* the last one is that of zeros */
    unsigned kinds[KINDS];
    total_t totals[THREADS / 2];
    total_t result;
} shared_t;

static __device__ real widened(stored bits) {
#if KIND == BFLOAT16
    return __int_as_float((int)bits << 16);
#elif KIND == FLOAT16
    return float_of_half(bits);
#else
    return bits;
#endif
}

static __device__ int is_finite(real x) { return x >= -LARGEST && x <= LARGEST; }
static __device__ real clamped(real x, real low, real high) { return smaller(larger(x, low), high); }

typedef struct {
    const stored *values, *before;
    real scale;
    int length, aligned;
} block_t;

static __device__ real element(const block_t *block, int at) {
    real x = widened(block->values[at]);
#if SUBTRACT
    x -= widened(block->before[at]);
#endif
#if SCALE
    x *= block->scale;
#endif
    return x;
}

typedef struct __align__(16) {
    unsigned words[4];
} words_t;

/* A group as it lies in memory. */
static __device__ void load_words(const stored *from, int aligned, words_t quads[QUADS]) {
    if (__builtin_expect(aligned, 1)) {
        const words_t *wide = (const words_t *)from;
        __builtin_assume(__isGlobal(wide));
#pragma unroll
        for (int part = 0; part < QUADS; part++) quads[part] = wide[part];
        return;
    }
#pragma unroll
    for (int word = 0; word < 4 * QUADS; word++) {
#if KIND == FLOAT32
        quads[word / 4].words[word % 4] = (unsigned)__float_as_int(from[word]);
#elif KIND == FLOAT64
        i64 bits = __double_as_longlong(from[word / 2]);
        quads[word / 4].words[word % 4] = (unsigned)(word % 2 ? bits >> 32 : bits);
#else
        quads[word / 4].words[word % 4] = from[2 * word] | (unsigned)from[2 * word + 1] << 16;
#endif
    }
}

static __device__ void unpack(const words_t quads[QUADS], real x[GROUP]) {
#pragma unroll
    for (int k = 0; k < GROUP; k++) {
#if KIND == FLOAT32
        x[k] = __int_as_float((int)quads[k / 4].words[k % 4]);
#elif KIND == FLOAT64
        const unsigned *words = quads[k / 2].words + k % 2 * 2;
        x[k] = __longlong_as_double((i64)((unsigned long long)words[1] << 32 | words[0]));
#else
        unsigned pair = quads[k / 8].words[k / 2 % 4];
#if KIND == BFLOAT16
        x[k] = __int_as_float((int)(k % 2 ? pair & 0xffff0000u : pair << 16));
#else
        x[k] = float_of_half((unsigned short)(k % 2 ? pair >> 16 : pair));
#endif
#endif
    }
}

/* A group from a place on that is a multiple of GROUP. */
static __device__ void load_group(const block_t *block, int first, real x[GROUP]) {
    words_t quads[QUADS];
    load_words(block->values + first, block->aligned, quads);
    unpack(quads, x);
#if SUBTRACT
    real other[GROUP];
    load_words(block->before + first, block->aligned, quads);
    unpack(quads, other);
#pragma unroll
    for (int k = 0; k < GROUP; k++) x[k] -= other[k];
#endif
#if SCALE
#pragma unroll
    for (int k = 0; k < GROUP; k++) x[k] *= block->scale;
#endif
}

static __device__ void add_exactly(real *sum, real *lost, real value) { /* Kahan's sum */
#if KIND == FLOAT64
    *sum += value;
#else
    real corrected = value - *lost, next = *sum + corrected;
    *lost = (next - *sum) - corrected;
    *sum = next;
#endif
}

static __device__ void add_group(sums_t *sums, const real x[GROUP], scale_t scale) {
    real sum[2] = {0, 0}, squares[2] = {0, 0}, magnitudes[2] = {0, 0}; /* of even and of odd places */
#pragma unroll
    for (int k = 0; k < GROUP; k++) {
        real away = fused(x[k], scale.factor, -scale.origin);
        sum[k % 2] += away;
        squares[k % 2] = fused(away, away, squares[k % 2]);
        magnitudes[k % 2] += magnitude(x[k]);
        sums->low = smaller(sums->low, x[k]);
        sums->high = larger(sums->high, x[k]);
    }
    add_exactly(&sums->sum, &sums->lost_sum, sum[0] + sum[1]);
    add_exactly(&sums->squares, &sums->lost_squares, squares[0] + squares[1]);
    add_exactly(&sums->magnitudes, &sums->lost_magnitudes, magnitudes[0] + magnitudes[1]);
}

/* Counts an element in its bin. No branch: whatever is zero has a counter of its own. */
static __device__ void count(unsigned *counters, real x) {
    float narrow = (float)x;
    atomicAdd(counters + (narrow != 0 ? (unsigned)__float_as_int(narrow) >> 20 : BINS), 1u);
}

/* What few elements need: those of a group that is not full, and those of blocks for which one pass will not do, of
   which only the finite ones are added, and magnitudes are scaled before they are. */
static __device__ __noinline__ void add_some(
    sums_t *sums, unsigned *counters, const block_t *block, int first, int last, int step, scale_t scale, int careful
) {
    if (last > block->length) last = block->length;
#pragma unroll 1
    for (int at = first; at < last; at += step) {
        real x = element(block, at), away = fused(x, scale.factor, -scale.origin);
        if (counters) count(counters, x);
        sums->zeros += x == 0;
        if (careful && !is_finite(x)) continue;
        sums->n++;
        add_exactly(&sums->sum, &sums->lost_sum, away);
        add_exactly(&sums->squares, &sums->lost_squares, away * away);
        add_exactly(&sums->magnitudes, &sums->lost_magnitudes, magnitude(careful ? x * scale.factor : x));
        sums->low = smaller(sums->low, x);
        sums->high = larger(sums->high, x);
    }
}

/* Joins what the threads have, in a fixed order; all of them get the result. */
static __device__ __noinline__ total_t joined(shared_t *shared, const sums_t *sums, int binned, int not_finite) {
    total_t mine;
    int thread = (int)threadIdx.x;
    mine.sum = (double)sums->sum - (double)sums->lost_sum;
    mine.squares = (double)sums->squares - (double)sums->lost_squares;
    mine.magnitudes = (double)sums->magnitudes - (double)sums->lost_magnitudes;
    mine.low = sums->low, mine.high = sums->high;
    mine.n = sums->n, mine.zeros = sums->zeros, mine.binned = binned, mine.not_finite = not_finite;
    for (int half = THREADS / 2; half; half /= 2) {
        if (thread >= half && thread < 2 * half) shared->totals[thread - half] = mine;
        __syncthreads();
        if (thread < half) {
            total_t other = shared->totals[thread];
            mine.sum += other.sum, mine.squares += other.squares, mine.magnitudes += other.magnitudes;
            mine.low = smaller(mine.low, other.low), mine.high = larger(mine.high, other.high);
            mine.n += other.n, mine.zeros += other.zeros;
            mine.binned += other.binned, mine.not_finite += other.not_finite;
        }
        __syncthreads();
    }
    if (thread == 0) shared->result = mine;
    __syncthreads();
    return shared->result;
}

static __device__ sums_t nothing(void) {
    sums_t sums = {0, 0, 0, 0, 0, 0, INFINITE, -INFINITE, 0, 0};
    return sums;
}

/* Scales by the power of two of the largest magnitude, around an estimate of the mean. */
static __device__ scale_t scaled_for(real low, real high, real estimate) {
    scale_t scale;
    real peak = larger(-low, high), centre = clamped(estimate, low, high);
#if KIND == FLOAT64
    int exponent = (int)(__double_as_longlong(peak) >> 52 & 2047) - 1023;
    scale.exponent = peak > 0 && peak <= LARGEST ? (exponent < -1022 ? -1022 : exponent > 1022 ? 1022 : exponent) : 0;
    scale.factor = __longlong_as_double((i64)(1023 - scale.exponent) << 52);
#else
    int exponent = (__float_as_int(peak) >> 23 & 255) - 127;
    scale.exponent = peak > 0 && peak <= LARGEST ? (exponent < -126 ? -126 : exponent > 126 ? 126 : exponent) : 0;
    scale.factor = __int_as_float((127 - scale.exponent) << 23);
#endif
    scale.origin = is_finite(centre) ? centre * scale.factor : 0;
    return scale;
}

/* The sums of a block's finite elements. */
static __device__ total_t added_up(shared_t *shared, const block_t *block, scale_t scale) {
    sums_t sums = nothing();
    add_some(&sums, 0, block, (int)threadIdx.x, block->length, THREADS, scale, 1);
    return joined(shared, &sums, 0, 0);
}

/* Where a row counts a kind of elements, in the order of shared_t's counters. */
static __device__ int code_of(int kind) {
    return kind == 0 ? AT_NAN : kind == 1 ? AT_PLUS_INFINITY : kind == 2 ? AT_MINUS_INFINITY
        : kind == 3 ? AT_PLUS_OVERFLOW : kind == 4 ? AT_MINUS_OVERFLOW
        : kind == 5 ? AT_PLUS_UNDERFLOW : AT_MINUS_UNDERFLOW;
}

/* Counts what is not finite or has no bin, but for zeros. */
static __device__ void count_kinds(unsigned *kinds, const block_t *block) {
#pragma unroll 1
    for (int at = (int)threadIdx.x; at < block->length; at += THREADS) {
        real x = element(block, at);
        float narrow = fabsf((float)x);
        int kind = -1, positive = x > 0;
        if (x != x) kind = 0;
        else if (!is_finite(x)) kind = positive ? 1 : 2;
        else if (narrow > 3.4028234663852886e38f) kind = positive ? 3 : 4;
        else if (narrow == 0 && x != 0) kind = positive ? 5 : 6;
        if (kind >= 0) atomicAdd(kinds + kind, 1u);
    }
}

/* The sums of a block for which one pass will not do; sets the scale that they have. */
static __device__ __noinline__ total_t carefully(shared_t *shared, const block_t *block, scale_t *scale) {
    scale_t zero = {0, 0, 0}; /* only extremes are found: nothing overflows */
    count_kinds(shared->kinds, block);
    total_t total = added_up(shared, block, zero);
    *scale = scaled_for(total.low, total.high, 0);
    scale->origin = 0;
    total = added_up(shared, block, *scale);
    if (total.n)
        scale->origin = clamped((real)(total.sum / total.n), total.low * scale->factor, total.high * scale->factor);
    return added_up(shared, block, *scale);
}

KERNEL void __launch_bounds__(THREADS) measure_blocks(
    const i64 *table, const i64 *owners, unsigned *rows, double *partials, i64 first
) {
    __shared__ shared_t shared;
    int thread = (int)threadIdx.x;
    i64 number = first + blockIdx.x;
    const i64 *entry = table + owners[number] * FIELDS;
    i64 start = (number - entry[4]) * entry[3], left = entry[2] - start;
    unsigned *row = rows + owners[number] * WORDS;
    block_t block;
    block.values = (const stored *)entry[0] + start;
    block.before = SUBTRACT ? (const stored *)entry[1] + start : 0;
    block.scale = SCALE ? *(const float *)entry[5] : 1;
    block.length = (int)(left < entry[3] ? left : entry[3]);
    block.aligned = (((i64)block.values | (i64)block.before) & 15) == 0;

    for (int bin = thread; bin <= BINS; bin += THREADS) shared.counters[bin] = 0;
    if (thread < KINDS) shared.kinds[thread] = 0;
    /* Groups from all over the block say where the values lie. */
    real x[GROUP];
    scale_t one = {1, 0, 0};
    sums_t sums = nothing();
    int sample = (int)((i64)block.length * thread / THREADS) / GROUP * GROUP;
    if (sample + GROUP <= block.length) {
        load_group(&block, sample, x);
        add_group(&sums, x, one);
        sums.n = GROUP;
    } else
        add_some(&sums, 0, &block, sample, sample + GROUP, 1, one, 0);
    total_t total = joined(&shared, &sums, 0, 0);
    scale_t scale = scaled_for(total.low, total.high, (real)(total.sum / total.n));

    sums = nothing();
    int at = thread * GROUP;
    for (; at + GROUP <= block.length; at += ROUND) {
        load_group(&block, at, x);
        add_group(&sums, x, scale);
#pragma unroll
        for (int k = 0; k < GROUP; k++) {
            count(shared.counters, x[k]);
#if KIND == FLOAT64
            sums.zeros += x[k] == 0;
#endif
        }
    }
    add_some(&sums, shared.counters, &block, at, at + GROUP, 1, scale, 0);
    __syncthreads();
    int binned = 0, not_finite = 0;
    for (int bin = thread; bin < BINS; bin += THREADS) {
        unsigned count = shared.counters[bin];
        if (count && (bin & (SIGN_BIN - 1)) < OVERFLOW_BIN) {
            binned += count;
            atomicAdd(row + bin, count);
        } else
            not_finite += count;
    }
    total = joined(&shared, &sums, binned, not_finite);
    total.n = block.length;
    int zeros = KIND == FLOAT64 ? total.zeros : (int)shared.counters[BINS];
    double magnitudes = total.magnitudes * scale.factor;
    double peak = larger(-total.low, total.high) * (double)scale.factor;
    int has_others = total.binned + zeros < block.length;
    int overflows = !(total.squares <= MANY && magnitudes <= MANY);
    int vanishes = peak > 0 && peak < FEW;
    /* Digits of the squares cancel beside a centre that is far from the mean. */
    int cancels = total.sum * total.sum > total.squares * total.n / 8;
    if (has_others || overflows || vanishes || cancels) {
        total = carefully(&shared, &block, &scale);
        magnitudes = total.magnitudes;
    }
    if (thread < KINDS && shared.kinds[thread]) atomicAdd(row + code_of(thread), shared.kinds[thread]);
    if (thread == 0) {
        double *found = partials + number * FOUND;
        found[0] = total.n;
        found[1] = total.low;
        found[2] = total.high;
        found[3] = scale.exponent; /* what follows is scaled by this power of two */
        found[4] = scale.origin;
        found[5] = total.sum;
        found[6] = total.squares;
        found[7] = magnitudes;
        if (zeros) atomicAdd(row + AT_ZERO, (unsigned)zeros);
    }
}
