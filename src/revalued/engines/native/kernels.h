/* One gradient update of a stack of critics, in C.

   It computes what `revalued.passes`, `revalued.algorithms.objective` and `TorchEngine.step` say with tensors;
   read those first. What differs is the order: every thread carries a critic of its own (or, where there are more
   threads than critics, some rows of one) through a whole pass, a few rows at a time, so that element-wise work finds
   its numbers in the core's cache and threads meet twice in an update instead of a hundred times. Matrix products are
   left to the BLAS library that PyTorch brings along.

   Letters are those of the package: K critics, B rows of the batch, D inputs (observations and a one), H hidden units,
   O outputs of the head. Matrices are stored by rows. Python owns all memory (`layout.py`). */

#ifndef REVALUED_KERNELS_H
#define REVALUED_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Compiled for several generations of CPUs; the loader takes the best one that the machine can run. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define VECTORISED
#endif

#define NUM_PARAMETERS 9
#define ALIGNED_FLOATS 16 /* threads share out columns in units of a cache line */

/* BLAS, with FORTRAN's columns-first matrices */
typedef void Sgemm(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                   const int *, const float *, const int *, const float *, float *, const int *);

/* Parameters of all critics as `revalued.networks` lays them out: [K, rows, columns] each. */
typedef union {
    struct {
        float *input, *block1_weight, *block1_bias, *block2_weight, *block2_bias;
        float *norm_scale, *norm_shift, *head_weight, *head_bias;
    };
    float *all[NUM_PARAMETERS];
} Parameters;

/* What depends on parameters alone, see `revalued.passes.fold`. */
typedef struct {
    float *block1;      /* [K, D, H], or NULL where merging the first two layers does not pay */
    float *head_weight; /* [K, H, W]: O columns, one that averages, zeros up to W */
    float *head_bias;   /* [K, O] */
} Folding;

/* Intermediate results of the pass that is differentiated, [K, B, H] and [K, B]. */
typedef struct {
    float *hidden, *block1, *block2, *features; /* `features` lies in `hidden` where nobody asks for that again */
    float *mean, *inverse_deviation;
} Kept;

/* Memory of single threads, for a block of rows: [T, block, ...]. */
typedef struct {
    float *hidden, *block1, *block2, *raw, *mean, *inverse_deviation;
} Scratch;

/* Memory of the threads that share a critic: [T, ...], and one number for every thread. */
typedef struct {
    float *scaled, *upstream, *residual, *block1, *merged, *head;
    double *squares;
} Slopes;

/* Everything that stays the same from update to update. */
typedef struct {
    Sgemm *sgemm;
    int threads, critics, rows, inputs, hidden, outputs, width, block; /* T, K, B, D, H, O, W */
    float epsilon, trunk_scale;                                       /* of LayerNorm; on gradients before the head */
    Parameters online, target, gradients, first_moment, second_moment;
    Folding online_folding, target_folding;
    Kept kept;
    Scratch scratch;
    Slopes slopes;
    const float *inputs_now, *inputs_next;                             /* [B, D] */
    float *online_now, *online_next, *target_now, *target_next;        /* [K, B, O]; NULL where nobody asks */
} Update;

/* Where a thread stands: `parts` threads share a critic, `teams` such teams share all critics evenly. */
typedef struct {
    int slot, team, teams, part, parts;
} Place;

Place find_place(int critics);
int cut(int total, int part, int parts, int unit);
void product(const Update *u, char left_form, char right_form, int rows, int columns, int inner, const float *left,
             int left_stride, const float *right, int right_stride, float keep, float *out, int out_stride);
void fold_critic(const Update *u, const Parameters *p, const Folding *f, int critic, Place at);
double backward_critic(const Update *u, const float *output_gradient, int critic, Place at);

#endif
