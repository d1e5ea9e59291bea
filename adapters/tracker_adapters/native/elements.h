/* The loops over the elements of tensors. instruction_sets.c includes this file for each instruction set and for float
 * and double, with these names defined:
 *
 *   ELEMENT, SIGNED, UNSIGNED   float, int32_t, uint32_t; or double, int64_t, uint64_t
 *   VECTOR                      bytes of the instruction set's vectors
 *   NAME(name)                  the name of a function for this instruction set and element
 *   ISA(name)                   the name of a function for this instruction set
 *
 * Elements are taken in blocks of 2,048, which stay in the first-level cache: several short loops over a block, each of
 * which becomes vector instructions, are faster than one long loop.
 *
 * The same bits on every processor. A sum of floating-point numbers depends on its order, so the order is fixed: element
 * i of a block goes to lane i modulo the number of lanes, and the lanes are added by halves. An instruction set decides
 * only how many lanes one instruction adds to. Products are never fused with sums (-ffp-contract=off), since not every
 * processor can.
 */

#define LANES ((int)(LANE_BYTES / sizeof(ELEMENT)))  /* of a sum in the elements' own type */
#define IN_VECTOR ((int)(VECTOR / sizeof(ELEMENT)))  /* elements in a vector */
#define WIDTH ((int)(VECTOR / sizeof(double)))       /* doubles in a vector */

typedef ELEMENT NAME(element) __attribute__((aligned(1), may_alias));  /* in memory of others, which may lie anywhere */
typedef ELEMENT NAME(vector) __attribute__((vector_size(VECTOR), aligned(1), may_alias));

/* Rounds as torch.sub does. */
static void NAME(subtract)(const NAME(element) *block, const NAME(element) *before, int size, ELEMENT *difference) {
    for (int i = 0; i < size; i++) difference[i] = block[i] - before[i];
}

/* Copies the finite elements and counts the others; returns how many are finite. */
static int NAME(keep_finite)(const NAME(element) *block, int size, ELEMENT *kept, int64_t *tally) {
    int finite = 0;
    for (int i = 0; i < size; i++) {
        ELEMENT value = block[i];
        if (isfinite(value))
            kept[finite++] = value;
        else
            tally[value > 0 ? POS_INF : value < 0 ? NEG_INF : NANS]++;
    }
    return finite;
}

/* Finds the elements of least and most magnitude on either side of zero. Read as integers, positive numbers ascend and
 * negative ones descend, NaN and infinity lying outermost. With one sign only, the ends of the other are elements too. */
static void NAME(extremes)(const void *block, int size, ELEMENT ends[4]) {
    typedef SIGNED bits __attribute__((aligned(1), may_alias));
    const bits *values = block;
    SIGNED lowest = values[0], highest = values[0];
    UNSIGNED least = (UNSIGNED)values[0], most = (UNSIGNED)values[0];
    for (int i = 0; i < size; i++) {
        SIGNED value = values[i];
        UNSIGNED magnitude = (UNSIGNED)value;
        lowest = value < lowest ? value : lowest;
        highest = value > highest ? value : highest;
        least = magnitude < least ? magnitude : least;
        most = magnitude > most ? magnitude : most;
    }
    UNSIGNED found[4] = {least, (UNSIGNED)highest, (UNSIGNED)lowest, most};
    memcpy(ends, found, sizeof found);
}

/* Counts the bins of a block, and returns the sums of the differences to its first element, of their squares, and of the
 * magnitudes. Relative to the first element squares lose at most a factor of the block's size.
 *
 * Both in one loop: counting waits for stores and summing for arithmetic, so that one takes hardly longer than the other
 * alone. Neighbours often fall into one bin and would wait for each other's store: they take turns at several counters.
 * Meanwhile the memory of the following block comes into the cache; it need not be valid.
 *
 *   narrowed    the block as float; null to count nothing
 *   following   what will be read next
 */
static inline __attribute__((always_inline)) void NAME(sum_and_count)(
    const NAME(element) *block, const void *narrowed, int size, uint32_t histogram[COUNTERS][COUNTERS_SIZE],
    const char *following, double sums[3]) {
    enum { VECTORS = DOUBLES / WIDTH };
    typedef uint32_t word __attribute__((aligned(1), may_alias));
    typedef uint64_t words __attribute__((aligned(1), may_alias));
    const word *bits = narrowed;
    ISA(wide) total[VECTORS] = {{0}}, squares[VECTORS] = {{0}}, absolute[VECTORS] = {{0}};
    double first = block[0], lanes[3][DOUBLES];
    int whole = size / DOUBLES * DOUBLES;
    for (int i = 0; i < whole; i += DOUBLES) {
        for (int k = 0; k < VECTORS; k++) {
            ISA(wide) value = NAME(widen)(block + i + k * WIDTH);
            ISA(wide) difference = value - first;
            total[k] += difference;
            squares[k] += difference * difference;
            absolute[k] += (ISA(wide))((ISA(wide_bits))value & INT64_MAX);
        }
        if (!bits) continue;
        for (unsigned line = 0; line < DOUBLES * sizeof(ELEMENT); line += 64)
            __builtin_prefetch(following + i * sizeof(ELEMENT) + line);
        for (int k = 0; k < DOUBLES; k += 2) {
            uint64_t both = *(const words *)(bits + i + k);  /* one load for two elements, in either order */
            histogram[k % COUNTERS][(uint32_t)both >> SHIFT]++;
            histogram[(k + 1) % COUNTERS][both >> (32 + SHIFT)]++;
        }
    }
    memcpy(lanes[0], total, LANE_BYTES);
    memcpy(lanes[1], squares, LANE_BYTES);
    memcpy(lanes[2], absolute, LANE_BYTES);
    for (int i = whole; i < size; i++) {
        double value = block[i], difference = value - first;
        lanes[0][i - whole] += difference;
        lanes[1][i - whole] += difference * difference;
        lanes[2][i - whole] += value < 0 ? -value : value;
        if (bits) histogram[0][bits[i] >> SHIFT]++;
    }
    for (int sum = 0; sum < 3; sum++) sums[sum] = add_by_halves(lanes[sum], DOUBLES);
}

/* Adds the moments of a block by its first element and its sums. */
static void NAME(add_moments)(double first, const double sums[3], int size, const ELEMENT ends[4], row_state *row) {
    double mean = sums[0] / size, m2 = sums[1] - sums[0] * mean;
    if (row->finite == 0) row->shift = first;
    join_mean_and_m2(row->finite, &row->mean, &row->m2, size, first - row->shift + mean, m2 < 0 ? 0 : m2);
    row->finite += size;
    row->l1 += sums[2];
    for (int i = 0; i < 4; i++) {
        if (ends[i] < row->min) row->min = ends[i];
        if (ends[i] > row->max) row->max = ends[i];
    }
}

/* Tells the values that float rounds to zero from the zeros that they were counted as. */
static void NAME(count_underflows)(const NAME(element) *block, int size, int64_t *tally) {
    int64_t above = 0, below = 0;
    for (int i = 0; i < size; i++) {
        int is_zero = (float)block[i] == 0;
        above += is_zero & (block[i] > 0);
        below += is_zero & (block[i] < 0);
    }
    tally[ZERO] -= above + below;
    tally[POS_UNDERFLOW] += above;
    tally[NEG_UNDERFLOW] += below;
}

/* Adds elements, less those in before if it is not null, to what is known of their tensor. */
static void NAME(add)(const void *values, const void *before, int64_t size, scratch *room, row_state *row) {
    ELEMENT *kept = (ELEMENT *)room->kept, ends[4];
    float narrow_ends[4];
    double sums[3];
    row->tally[COUNT] += size;
    for (int64_t start = 0; start < size; start += BLOCK) {
        const NAME(element) *block = (const NAME(element) *)values + start;
        const char *following = (const char *)((const NAME(element) *)(before ? before : values) + start + BLOCK);
        int length = size - start < BLOCK ? (int)(size - start) : BLOCK;
        if (before) {
            NAME(subtract)(block, (const NAME(element) *)before + start, length, kept);
            block = kept;
        }
        NAME(extremes)(block, length, ends);
        if (!isfinite(ends[1]) || !isfinite(ends[3])) {
            length = NAME(keep_finite)(block, length, kept, row->tally);
            if (length == 0) continue;
            block = kept;
            NAME(extremes)(block, length, ends);
        }
        for (int i = 0; i < 4; i++) narrow_ends[i] = (float)ends[i];
        widen_spans(row, narrow_ends);
        const void *narrowed = block;
        if (sizeof(ELEMENT) == sizeof(double)) {
            for (int i = 0; i < length; i++) room->narrowed[i] = (float)block[i];
            narrowed = room->narrowed;
        }
        NAME(sum_and_count)(block, narrowed, length, room->histogram, following, sums);
        NAME(add_moments)(block[0], sums, length, ends, row);
        if (narrow_ends[0] == 0 || narrow_ends[2] == 0) {
            ISA(count_zeros)(narrowed, length, row);
            if (sizeof(ELEMENT) == sizeof(double)) NAME(count_underflows)(block, length, row->tally);
        }
    }
}

/* Copies a block, unless copy is null, and returns its sum. */
static double NAME(copy_and_sum)(const NAME(element) *block, int size, NAME(element) *copy) {
    enum { VECTORS = LANES / IN_VECTOR };
    NAME(vector) total[VECTORS] = {{0}};
    ELEMENT sums[LANES];
    double lanes[LANES];
    int whole = size / LANES * LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int k = 0; k < VECTORS; k++) {
            NAME(vector) values = *(const NAME(vector) *)(block + i + k * IN_VECTOR);
            if (copy) *(NAME(vector) *)(copy + i + k * IN_VECTOR) = values;
            total[k] += values;
        }
    memcpy(sums, total, LANE_BYTES);
    for (int i = whole; i < size; i++) {
        if (copy) copy[i] = block[i];
        sums[i - whole] += block[i];
    }
    for (int i = 0; i < LANES; i++) lanes[i] = sums[i];
    return add_by_halves(lanes, LANES);
}

/* Sums of the differences to a number near the mean, and of their squares. */
static void NAME(deviations)(const NAME(element) *block, int size, ELEMENT mean, double sums[2]) {
    enum { VECTORS = LANES / IN_VECTOR };
    NAME(vector) total[VECTORS] = {{0}}, squares[VECTORS] = {{0}};
    ELEMENT narrow[2][LANES];
    double lanes[2][LANES];
    int whole = size / LANES * LANES;
    for (int i = 0; i < whole; i += LANES)
        for (int k = 0; k < VECTORS; k++) {
            __builtin_prefetch(block + BLOCK + i + k * IN_VECTOR);
            NAME(vector) difference = *(const NAME(vector) *)(block + i + k * IN_VECTOR) - mean;
            total[k] += difference;
            squares[k] += difference * difference;
        }
    memcpy(narrow[0], total, LANE_BYTES);
    memcpy(narrow[1], squares, LANE_BYTES);
    for (int i = whole; i < size; i++) {
        ELEMENT difference = block[i] - mean;
        narrow[0][i - whole] += difference;
        narrow[1][i - whole] += difference * difference;
    }
    for (int sum = 0; sum < 2; sum++) {
        for (int i = 0; i < LANES; i++) lanes[sum][i] = narrow[sum][i];
        sums[sum] = add_by_halves(lanes[sum], LANES);
    }
}

/* Mean, m2 and extremes of elements, which are copied unless copy is null; blocks are joined by the pairwise formula. */
static void NAME(spread)(const void *values, void *copy, int64_t size, spread_row *row) {
    spread_row found = {0, 0, 0, INFINITY, -INFINITY};
    int finite = 1;
    for (int64_t start = 0; start < size; start += BLOCK) {
        const NAME(element) *block = (const NAME(element) *)values + start;
        int length = size - start < BLOCK ? (int)(size - start) : BLOCK;
        double total = NAME(copy_and_sum)(block, length, copy ? (NAME(element) *)copy + start : 0), sums[3];
        if (!finite) continue;  /* the rest is copied only */
        ELEMENT near = (ELEMENT)(total / length), ends[4];
        NAME(extremes)(block, length, ends);
        NAME(deviations)(block, length, near, sums);
        finite = isfinite(total) && isfinite(sums[1]);
        double mean = near + sums[0] / length, m2 = sums[1] - sums[0] * sums[0] / length;
        double low = ends[0], high = ends[0];
        for (int i = 1; i < 4; i++) {
            low = ends[i] < low ? ends[i] : low;
            high = ends[i] > high ? ends[i] : high;
        }
        if (sums[1] < TINY && low != high) {  /* squares in float lose digits here */
            NAME(sum_and_count)(block, NULL, length, NULL, NULL, sums);
            mean = block[0] + sums[0] / length;
            m2 = sums[1] - sums[0] * sums[0] / length;
        }
        join_mean_and_m2(found.count, &found.mean, &found.m2, length, mean, m2 < 0 ? 0 : m2);
        found.count += length;
        found.min = low < found.min ? low : found.min;
        found.max = high > found.max ? high : found.max;
    }
    if (!finite) found.count = 0;
    *row = found;
}

#undef LANES
#undef IN_VECTOR
#undef WIDTH
