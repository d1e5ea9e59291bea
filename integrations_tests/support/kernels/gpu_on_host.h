/* What the kernels for GPUs need of CUDA, on the host: the threads of a block are contexts that take turns at each
   barrier. */
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define KERNEL
#define __device__
#define __launch_bounds__(n)
#define __shared__ static
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(x)
#define __isGlobal(x) 1
struct place { unsigned x; };
static struct place threadIdx, blockIdx;

static int __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
static float __int_as_float(int i) { float x; memcpy(&x, &i, 4); return x; }
static long long __double_as_longlong(double x) { long long i; memcpy(&i, &x, 8); return i; }
static double __longlong_as_double(long long i) { double x; memcpy(&x, &i, 8); return x; }
static unsigned atomicAdd(unsigned *at, unsigned n) { unsigned was = *at; *at += n; return was; }

/* A thread of a block begins as a context of its own, and then jumps: that takes no call of the system. */
#define STACK (64 << 10)
static void (*body)(void);
static jmp_buf scheduler, parked[THREADS];
static int done[THREADS];

static void __syncthreads(void) {
    unsigned me = threadIdx.x;
    if (!_setjmp(parked[me])) _longjmp(scheduler, 1);
    threadIdx.x = me;
}

static void run_thread(void) {
    for (;;) {
        body();
        done[threadIdx.x] = 1;
        __syncthreads(); /* until the next block */
    }
}

static void begin_or_go_on(int thread) {
    static ucontext_t threads[THREADS];
    static char *stacks;
    ucontext_t *context = &threads[thread];
    if (!stacks) stacks = malloc((size_t)STACK * THREADS);
    if (context->uc_stack.ss_sp) _longjmp(parked[thread], 1);
    getcontext(context);
    context->uc_stack.ss_sp = stacks + (size_t)STACK * thread;
    context->uc_stack.ss_size = STACK;
    makecontext(context, run_thread, 0);
    setcontext(context);
}

static void run_block(void) {
    static int thread, left;
    memset(done, 0, sizeof done);
    for (left = THREADS; left;)
        for (thread = 0; thread < THREADS; thread++)
            if (!done[thread]) {
                threadIdx.x = thread;
                if (!_setjmp(scheduler)) begin_or_go_on(thread);
                left -= done[thread];
            }
}

static float float_of_half(unsigned short bits) {
    int exponent = bits >> 10 & 31;
    float x = exponent == 31 ? (bits & 1023 ? NAN : INFINITY)
        : ldexpf((float)((bits & 1023) | (exponent ? 1024 : 0)), (exponent ? exponent : 1) - 25);
    return bits >> 15 ? -x : x;
}
