/* Joins what was found of the blocks of each tensor, in float64 and in a fixed order; see the package's docstring. */

#define FIELDS 6
#define FOUND 8
#define BINS 4096
#define WORDS (BINS + 10)
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)
#define NEARLY_INFINITE 1e300

#ifdef __cplusplus
#define KERNEL extern "C" __global__
#endif

typedef long long i64;

typedef struct {
    double n, low, high, mean, squares, magnitudes;
} block_t;

static __device__ block_t loaded(const double *found) {
    block_t block;
    double scale = __longlong_as_double(((i64)found[3] + 1023) << 52), n = found[0] > 1 ? found[0] : 1;
    double squares = found[6] - found[5] * found[5] / n;
    block.n = found[0];
    block.low = found[1];
    block.high = found[2];
    block.mean = (found[4] + found[5] / n) * scale;
    block.squares = (squares > 0 ? squares : 0) * scale * scale;
    block.magnitudes = found[7] * scale;
    return block;
}

/* What the threads have, joined in a fixed order; all of them get the result. */
static __device__ double total(double *shared, double mine, int largest) {
    int thread = (int)threadIdx.x;
    __syncthreads();
    shared[thread] = mine;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (thread < half) {
            double a = shared[thread], b = shared[thread + half];
            shared[thread] = !largest ? a + b : b > a ? b : a;
        }
    }
    __syncthreads();
    return shared[0];
}

KERNEL void __launch_bounds__(THREADS) join_blocks(const i64 *table, unsigned *rows, const double *partials) {
    __shared__ double shared[THREADS];
    const i64 *entry = table + (i64)blockIdx.x * FIELDS;
    const double *found = partials + entry[4] * FOUND;
    i64 blocks = (entry[2] + entry[3] - 1) / entry[3];
    double n = 0, magnitudes = 0, low = INFINITE, high = -INFINITE, reference = -INFINITE, shift = 0, squares = 0;
    for (i64 at = threadIdx.x; at < blocks; at += THREADS) {
        block_t block = loaded(found + at * FOUND);
        n += block.n;
        magnitudes += block.magnitudes;
        low = block.low < low ? block.low : low;
        high = block.high > high ? block.high : high;
        if (block.n > 0 && block.mean > reference) reference = block.mean;
    }
    n = total(shared, n, 0);
    magnitudes = total(shared, magnitudes, 0);
    low = -total(shared, -low, 1);
    high = total(shared, high, 1);
    /* Differences of means at the two ends of float64 would leave it. */
    double factor = (-low > high ? -low : high) > NEARLY_INFINITE ? 0.25 : 1;
    /* Relative to one of the means, so that equal means stay what they are. */
    reference = total(shared, reference, 1) * factor;
    for (i64 at = threadIdx.x; at < blocks; at += THREADS) {
        block_t block = loaded(found + at * FOUND);
        if (block.n > 0) shift += (block.mean * factor - reference) * (block.n / n);
    }
    shift = total(shared, shift, 0);
    for (i64 at = threadIdx.x; at < blocks; at += THREADS) {
        block_t block = loaded(found + at * FOUND);
        double away = (block.mean * factor - reference - shift) / factor;
        if (block.n > 0) squares += block.squares + away * away * block.n;
    }
    squares = total(shared, squares, 0);
    if (threadIdx.x == 0) {
        double *moments = (double *)(rows + (i64)blockIdx.x * WORDS + BINS);
        moments[0] = low;
        moments[1] = high;
        moments[2] = (reference + shift) / factor;
        moments[3] = squares;
        moments[4] = magnitudes;
    }
}
