"""Measures tensors on a GPU, as they lie in its memory: one Triton kernel for all of a call, and one that joins.

The kernel (``blocks``). A tensor is cut into blocks of 4,096 elements; a program loads one block into registers, once,
and everything is computed from there:

1. The extremes, the number of finite elements, and a first estimate of their mean, between the extremes.
2. The sums of the differences to that estimate, of their squares, and of the magnitudes. All are scaled by a power of
   two, so that the largest magnitude is between 1 and 2: squares neither overflow nor vanish, whatever the dtype is.
   Narrower elements are summed in float32 by eights, and those sums in float64: consumers' GPUs have 64 times fewer
   units for float64 than for float32, and this takes less than one operation in float64 for each element.
3. The histogram. The 63 bins of each sign around the mean bin, almost eight powers of two, are counted in fast memory
   and added to the tensor's counters in one go; of normally distributed values 1.4 % lie beside them, and each of these
   is added on its own. The order of integer additions does not matter.

What each block found is written to a row of its own, and a second kernel (``join``) joins the blocks of each tensor in
float64, in a fixed order, by the pairwise formula of Chan, Golub and LeVeque for many parts. So the same tensors give
the same bits each time on one machine; another GPU or another Triton may add up a block in another order.

Bounds, of the finite elements x of float32, bfloat16 and float16 with the mean m, per block: the estimate c is the
quotient of a sum of twenty roundings, within 2**-19.5 of the largest magnitude of m. A difference is rounded once, a
square twice more, and seven additions follow in float32, with relative errors of 2**-24 each. So the mean is within
2**-21 of the mean of ``|x - c|``, which is within 2**-20 of the mean of ``|x - m|`` or 2**-40 of the largest magnitude;
l1 is within 2**-20 of itself; and the standard deviation within 2**-20 of itself or 2**-29 of the largest magnitude. Of
float64, with 2**-53 in place of 2**-24, all of it is within 2**-48. Counts, bins and extremes are exact.
"""
