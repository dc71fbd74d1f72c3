/* The replay's sum tree: what `revalued.replay.sum_tree` says with whole arrays, one number after the other.
   Every sum is taken in the order in which NumPy takes it, so results are equal to the bit. */

#include "kernels.h"

#include <math.h>
#include <string.h>

/* Levels of partial sums, leaves first; each node of a level is the sum of `fan_out` neighbours of the level before. */
typedef struct {
    double **levels;
    int num_levels, fan_out;
    int64_t top_width;
    double *running; /* [top_width + 1]: sums of the top's first nodes */
} Tree;

/* The largest number below a positive one; 0 stays 0. */
static double just_below(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits -= x > 0;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* The sum of up to 128 numbers as NumPy reduces them: eight partial sums, added in pairs. */
static double pairwise_sum(const double *x, int count)
{
    double parts[8], sum = 0;
    int i = 8, whole = count - count % 8;
    if (count < 8) {
        for (i = 0; i < count; i++)
            sum += x[i];
        return sum;
    }
    memcpy(parts, x, sizeof parts);
    for (; i < whole; i += 8)
        for (int j = 0; j < 8; j++)
            parts[j] += x[i + j];
    sum = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
    for (; i < count; i++)
        sum += x[i];
    return sum;
}

void revalued_tree_set(const Tree *t, int64_t *indices, const double *values, int count)
{
    for (int i = 0; i < count; i++)
        t->levels[0][indices[i]] = values[i];
    for (int level = 1; level < t->num_levels; level++)
        for (int i = 0; i < count; i++) {
            indices[i] /= t->fan_out;
            t->levels[level][indices[i]] = pairwise_sum(t->levels[level - 1] + indices[i] * t->fan_out, t->fan_out);
        }
}

/* The first node of the top whose running sum exceeds u. */
static int64_t search(const Tree *t, double u)
{
    int64_t low = 0, high = t->top_width;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (t->running[middle + 1] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Find the leaves at some prefix sums, which are used up; returns 0 where all leaves are 0. */
int revalued_tree_find(const Tree *t, double *remaining, int count, int64_t *nodes)
{
    const double *top = t->levels[t->num_levels - 1];
    t->running[0] = 0;
    for (int64_t i = 0; i < t->top_width; i++)
        t->running[i + 1] = t->running[i] + top[i];
    double last = t->running[t->top_width];
    if (!(last > 0))
        return 0;
    for (int q = 0; q < count; q++) {
        double u = remaining[q] > 0 ? remaining[q] : 0;
        u = u < just_below(last) ? u : just_below(last);
        nodes[q] = search(t, u);
        remaining[q] = u - t->running[nodes[q]];
    }
    /* a level at a time, so that the processor can look up several nodes at once */
    for (int level = t->num_levels - 2; level >= 0; level--)
        for (int q = 0; q < count; q++) {
            const double *children = t->levels[level] + nodes[q] * t->fan_out;
            double before = 0, end = 0, whole = 0, u = remaining[q];
            for (int i = 0; i < t->fan_out; i++)
                whole += children[i];
            u = u < just_below(whole) ? u : just_below(whole);
            int chosen = 0;
            for (; chosen < t->fan_out - 1; chosen++, before = end) {
                end = before + children[chosen];
                if (end > u)
                    break;
            }
            remaining[q] = u - before;
            nodes[q] = nodes[q] * t->fan_out + chosen;
        }
    return 1;
}
