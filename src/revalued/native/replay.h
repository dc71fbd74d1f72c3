/* The replay's memory: the sum tree of priorities, and the rows that it draws. What is done with them is what
   `revalued.replay` says with whole arrays, one number after the other, equal to the bit. Python owns all memory. */

#ifndef REVALUED_REPLAY_H
#define REVALUED_REPLAY_H

#include <stddef.h>
#include <stdint.h>

/* As NumPy rounds: products before they are added, and 0 + -0 is 0. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off", "signed-zeros")
#endif

/* Levels of partial sums, leaves first; each node of a level is the sum of `fan_out` neighbours of the level before. */
typedef struct {
    double **levels;
    int num_levels, fan_out;
    int64_t size, top_width; /* leaves, and nodes of the last level */
    double *running;         /* [top_width + 1]: sums of the top's first nodes */
} Tree;

int revalued_tree_set(const Tree *t, const int64_t *indices, const double *values, int count, int only_positive);

#endif
