/* The replay's sum tree: what `revalued.replay.sum_tree` says with whole arrays, one number after the other. Every sum
   is taken in the order in which NumPy takes it, so results are equal to the bit. */

#include "kernels.h"

#include <math.h>
#include <string.h>

/* As NumPy rounds: products before they are added, and 0 + -0 is 0. */
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off", "signed-zeros")
#endif

enum { FAN_OUT = 16, DOUBLES_PER_LINE = 8 };

/* The largest number below a positive one; 0 stays 0. */
static double just_below(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits -= x > 0;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* The sum of a node's children as NumPy reduces them: eight partial sums, added in pairs. */
static double sum_of_children(const double *x)
{
    double parts[8];
    for (int i = 0; i < 8; i++)
        parts[i] = x[i] + x[i + 8];
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

/* Ask for the children of a node before they are needed: they are scattered all over a large replay. */
static inline void prefetch_children(const Tree *t, int level, int64_t node)
{
    for (int i = 0; i < FAN_OUT; i += DOUBLES_PER_LINE)
        __builtin_prefetch(t->levels[level - 1] + node * FAN_OUT + i);
}

/* Write leaves, and all sums above them; where `only_positive`, leaves that are 0 stay so. Returns 0 where an index or
   a value is none that a tree can have: then nothing has been written. */
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
        width *= FAN_OUT;
        for (int i = 0; i < count; i++) {
            int64_t node = indices[i] / width;
            t->levels[level][node] = sum_of_children(t->levels[level - 1] + node * FAN_OUT);
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

/* From nodes to their children, for all queries. */
static void descend(const Tree *t, int level, double *remaining, int count, int64_t *nodes)
{
    for (int q = 0; q < count; q++) {
        const double *children = t->levels[level] + nodes[q] * FAN_OUT;
        double running[FAN_OUT + 1], u = remaining[q];
        running[0] = 0;
        for (int i = 0; i < FAN_OUT; i++)
            running[i + 1] = running[i] + children[i];
        u = u < just_below(running[FAN_OUT]) ? u : just_below(running[FAN_OUT]);
        int chosen = 0;
        for (int i = 1; i < FAN_OUT; i++)
            chosen += running[i] <= u;
        remaining[q] = u - running[chosen];
        nodes[q] = nodes[q] * FAN_OUT + chosen;
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
        descend(t, level, remaining, count, nodes);
    return 1;
}
