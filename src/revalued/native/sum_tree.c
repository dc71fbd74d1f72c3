/* The replay's sum tree: what `revalued.replay.sum_tree` says. Every sum is taken in the order in which NumPy takes it. */

#include "replay.h"

#include <math.h>
#include <string.h>

enum { USUAL_FAN_OUT = 16 };

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

/* Ask for the children of a node before they are needed: they are scattered all over a large replay. */
static inline void prefetch_children(const Tree *t, int level, int64_t node)
{
    const int doubles_per_line = 8;
    for (int i = 0; i < t->fan_out; i += doubles_per_line)
        __builtin_prefetch(t->levels[level - 1] + node * t->fan_out + i);
}

/* Write leaves, and all sums above them; where `only_positive`, leaves that are 0 stay so. Returns 0 where an index or a
   value is none that a tree can have: then nothing has been written. */
int revalued_tree_set(const Tree *t, const int64_t *indices, const double *values, int count, int only_positive)
{
    int64_t width = 1; /* leaves under a node */
    for (int i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= t->size || !(values[i] >= 0 && values[i] < INFINITY))
            return 0;
    for (int i = 0; i < count; i++) {
        double *leaf = t->levels[0] + indices[i];
        *leaf = only_positive && *leaf == 0 ? 0 : values[i];
    }
    for (int level = 1; level < t->num_levels; level++) {
        width *= t->fan_out;
        for (int i = 0; i < count; i++) {
            int64_t node = indices[i] / width;
            t->levels[level][node] = pairwise_sum(t->levels[level - 1] + node * t->fan_out, t->fan_out);
        }
    }
    return 1;
}

/* The first node of the top whose running sum exceeds u, which is less than the last. Written without branches: which
   way to go cannot be foreseen. */
static int64_t search(const Tree *t, double u)
{
    const double *from = t->running + 1;
    for (int64_t count = t->top_width; count > 1; count -= count / 2)
        from += from[count / 2 - 1] <= u ? count / 2 : 0;
    return from - (t->running + 1);
}

/* From nodes to their children, for all queries; the number of children is known to the compiler where it matters. */
static inline __attribute__((always_inline)) void descend(const Tree *t, int level, double *remaining, int count,
                                                          int64_t *nodes, int fan_out)
{
    for (int q = 0; q < count; q++) {
        const double *children = t->levels[level] + nodes[q] * fan_out;
        double running[fan_out + 1], u = remaining[q];
        running[0] = 0;
        for (int i = 0; i < fan_out; i++)
            running[i + 1] = running[i] + children[i];
        u = u < just_below(running[fan_out]) ? u : just_below(running[fan_out]);
        int chosen = 0;
        for (int i = 1; i < fan_out; i++)
            chosen += running[i] <= u;
        remaining[q] = u - running[chosen];
        nodes[q] = nodes[q] * fan_out + chosen;
        if (level > 0)
            prefetch_children(t, level, nodes[q]);
    }
}

/* Find the leaves at some prefix sums, which are used up; they count in units of the total over `parts`, or of 1 where
   that is 0. Returns 0 where all leaves are 0. */
int revalued_tree_find(const Tree *t, double *remaining, int count, int parts, int64_t *nodes)
{
    int top = t->num_levels - 1;
    t->running[0] = 0;
    for (int64_t i = 0; i < t->top_width; i++)
        t->running[i + 1] = t->running[i] + t->levels[top][i];
    double last = t->running[t->top_width];
    if (!(last > 0))
        return 0;
    double unit = parts > 0 ? last / parts : 1;
    for (int q = 0; q < count; q++) {
        double u = remaining[q] > 0 ? remaining[q] * unit : 0;
        u = u < just_below(last) ? u : just_below(last);
        nodes[q] = search(t, u);
        remaining[q] = u - t->running[nodes[q]];
        if (top > 0)
            prefetch_children(t, top, nodes[q]);
    }
    /* a level at a time, so that the processor can look up several nodes at once */
    for (int level = top - 1; level >= 0; level--)
        if (t->fan_out == USUAL_FAN_OUT)
            descend(t, level, remaining, count, nodes, USUAL_FAN_OUT);
        else
            descend(t, level, remaining, count, nodes, t->fan_out);
    return 1;
}
