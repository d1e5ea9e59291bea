"""Measures tensors on a GPU, as they lie in its memory: one kernel for all tensors of a call, and one that joins.

Both are written in CUDA C (``measure.cu``, ``join.cu``). NVRTC, the library of CUDA's compiler that torch's packages
for CUDA install, compiles them when they are first needed, in about half a second for each dtype (``nvrtc``); CUDA's
driver loads and starts them (``compiling``). Neither a compiler nor CUDA's headers need be installed. Triton's
language would not do: it has no counters in shared memory, and its ``histogram`` made the kernel take seventeen times
as long on an H200.

The measuring kernel. A tensor is cut into blocks of 16,384 elements, of large tensors up to 131,072; 128 threads
measure a block.

1. One of 16 elements in 128 groups from all over the block gives a first estimate of the mean and of the largest
   magnitude.
2. Each thread reads 16 neighbouring elements (4 of float64) at once, again and again. From registers it adds up their
   differences to the estimate, the squares of these, and the magnitudes, takes the extremes, and counts the bins: all
   4,096 counters of a histogram lie in fast memory, where the bin is the upper twelve bits of the element as float32.
   Differences are scaled by a power of two, so that the largest magnitude is near 1: squares neither overflow nor
   vanish, whatever the dtype is. A thread's sums over two times eight elements enter its totals by Kahan's summation.
3. The counters are added to the tensor's row. The order of integer additions does not matter.
4. A block that has elements which are not finite or have no bin, whose sums overflow, or whose estimate was far from
   the mean, is read again with care, three times: only there the estimate comes from all elements.

What each block found is written to a row of its own, and the second kernel joins the blocks of each tensor in
float64, in a fixed order, by the pairwise formula of Chan, Golub and LeVeque for many parts. Fused operations are
written as such, and the compiler makes no others: the same tensors give the same bits, on each GPU and, in tests, on
the host.

Bounds, of the finite elements x of float32, bfloat16 and float16 with the mean m and the standard deviation s, per
block: a difference is rounded once, a square twice more, eight additions in float32 and Kahan's summation follow,
with relative errors of 2**-24 each. The estimate c is accepted where ``(m - c)**2`` is at most an eighth of the mean
of ``(x - c)**2``. So the mean is within 2**-20 of s, l1 within 2**-20 of itself, and s within 2**-20 of itself.
Beside these there is the rounding of m and x by the scale: 2**-40 of the largest magnitude for the mean, 2**-29 for
s. Of float64, with 2**-53 in place of 2**-24, all of it is within 2**-48. Counts, bins and extremes are exact.
"""
