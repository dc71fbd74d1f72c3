/* Everything that the C code has in common: its structures, how threads share out work, and the matrix product.

   One gradient update of a stack of critics computes what `revalued.learner.torch_update` says with tensors, and its
   loss is that of `revalued.algorithms.loss`; read those first. What differs is the order: a thread carries a critic
   (or, where there are few, a part of its rows) through a whole pass, a few rows at a time, so that element-wise work
   finds its numbers in the core's cache and threads meet a few times in an update instead of a hundred times. The number
   of threads changes no bit.

   update.c   the update as a whole, and Adam      folding.c   layers multiplied together
   passes.c   forward and backward pass            acting.c    outputs for choosing actions
   product.c  the matrix product                   product_tile.h  for one generation of processors
   loss.c     the loss and its gradient            sum_tree.c  the replay's priorities
   pool.c     threads that share the work          rows.c      the replay's usual step

   Letters are those of the package: K critics, B rows of the batch, D inputs (observations and a one), H hidden units,
   O outputs of the head, N dimensions of A choices; P parts of a critic, T threads. Matrices are stored by rows. Python
   owns all memory and fills the structures (`layout.py`), whose sizes are compared when the library is loaded. */

#ifndef REVALUED_KERNELS_H
#define REVALUED_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Compiled for several generations of CPUs; the loader takes the best one that the machine can run. */
#if defined(__x86_64__) && __GNUC__ >= 12 && !defined(__clang__)
#define VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__x86_64__) && (__GNUC__ >= 9 || __clang_major__ >= 14)
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif

#define NUM_PARAMETERS 9
#define ALIGNED_FLOATS 16 /* a cache line: so are parts and places cut */

/* Parameters of all critics as `revalued.networks` lays them out: [K, rows, columns] each. */
typedef union {
    struct {
        float *input, *block1_weight, *block1_bias, *block2_weight, *block2_bias;
        float *norm_scale, *norm_shift, *head_weight, *head_bias;
    };
    float *all[NUM_PARAMETERS];
} Parameters;

/* What depends on parameters alone; folding.c explains it. */
typedef struct {
    float *block1;      /* [K, D, H]: the first two layers, or NULL where merging them does not pay */
    float *head_weight; /* [K, H, W]: O columns, one that averages, zeros up to W */
    float *head_bias;   /* [K, O] */
} Folding;

/* What the pass that is differentiated leaves for the backward pass, [S, B, ...]: a place for every critic where
   PyTorch computes the loss of all of them, else one for every thread, used again for the next critic. */
typedef struct {
    float *hidden, *block1, *block2, *features; /* H wide; `features` lies in `hidden` where that is not asked for again */
    float *mean, *inverse_deviation;
    float *output, *output_gradient; /* O wide */
} Kept;

/* Memory of single threads, for a block of rows: [T, block, ...]. */
typedef struct {
    float *hidden, *block1, *block2, *raw, *mean, *inverse_deviation;
    float *outputs; /* [T, 2, O]: two rows of outputs, which may be too many for the stack */
} Scratch;

/* Gradients on their way back through a critic, in the place of the thread that has begun it. */
typedef struct {
    float *scaled, *upstream;  /* [T, B, W], of the head's outputs: divided by the deviation, and what flows on */
    float *residual, *block1;  /* [T, B, H], of the activations */
    float *merged, *head;      /* [T, D, H] and [T, H, W], of the folded layers */
    double *squares;           /* [T, P]: each part's sum of squares of gradients */
} Backward;

/* Everything that stays the same from update to update. */
typedef struct {
    int threads, critics, rows, inputs, hidden, outputs; /* T, K, B, D, H, O */
    int whole, parts; /* critics that are one part; parts of each of the others, which come last */
    int width, block; /* W; rows that go through a critic together */
    float epsilon, trunk_scale;                          /* of LayerNorm; on gradients before the head */
    Parameters online, target, first_moment, second_moment;
    Parameters gradients; /* not of all critics: a place for every thread, which uses it again and again */
    Folding online_folding, target_folding;
    Kept kept;
    Scratch scratch;
    Backward backward;
    const float *observations;          /* [2, B, D]: next, now */
    float *target_next, *online_next;   /* [K, passes, B, O]: the target's next and, if asked for, now; [K, B, O] */
    int target_passes;                  /* 2 where the loss asks the target about now too */
} Update;

/* What changes from update to update. */
typedef struct {
    float clip, step_size, rate1, rate2, correction2, epsilon, target_rate;
    float keep;   /* what is left of a weight that decays */
    float *norms; /* [K], of the gradients before clipping */
} Step;

enum { LOSS, TD_LOSS, MEAN_Q, TD_ERROR, REGULARISER, MEAN_TARGET, NUM_SUMS, GRADIENT_NORM = NUM_SUMS };

/* The loss on utilities that are averaged or added up, and its batch. */
typedef struct {
    const int64_t *actions;                     /* [B, N] */
    const float *returns, *discounts, *weights; /* [B] */
    const uint8_t *legal;                       /* [B, N, A], [N, A] or NULL where every choice is legal */
    int legal_stride;                           /* from row to row: N·A or 0 */
    int dimensions, choices;                    /* N, A */
    int mean_of_max, adds;                      /* the ensemble's target; whether utilities are added, not averaged */
    int quadratic, reduces_by_mean;             /* of the regulariser */
    float beta, temperature;
    const int64_t *drawn; /* [M]: the critics whose smallest value is the target; none: the mean of all */
    int num_drawn;
    float *targets;       /* [B]: y */
    float *errors;        /* [K, B]: sizes of TD errors */
    float *priorities;    /* [B] */
    double *sums;         /* [K, P, NUM_SUMS] over rows */
    double *metrics;      /* [NUM_SUMS + 1]: for the log */
} Loss;

/* Critics that choose actions. */
typedef struct {
    int threads, critics, inputs, hidden, outputs, block; /* T, K, D, H, O; rows that fit into the memory below */
    float epsilon;                                        /* of LayerNorm */
    Parameters parameters;
    const float *merged;                 /* [K, D, H]: the first two layers multiplied, or NULL */
    float *residual, *block1, *features; /* [T, block, H] */
} Critics;

/* The critics' first two layers, and their product. */
typedef struct {
    int critics, inputs, hidden;        /* K, D, H */
    const float *input, *weight, *bias; /* [K, D, H], [K, H, H], [K, H] */
    float *merged;                      /* [K, D, H] */
} Layers;

/* A sum tree: levels of partial sums, leaves first; each node is the sum of FAN_OUT neighbours one level below. */
typedef struct {
    double **levels;
    int num_levels;
    int64_t size, top_width; /* leaves, and nodes of the last level */
    double *running;         /* [top_width + 1]: sums of the top's first nodes */
} Tree;

/* The arrays of a replay, and those of a step of some of its lanes. Numbers whose type depends on how large they get
   come with their size in bytes. */
typedef struct {
    int64_t positions, lanes, max_choices;
    int observation_size, dimensions, n_step, action_bytes, next_row_bytes;
    float *observations, *returns, *discounts;        /* [rows, observation_size], [rows], [rows] */
    void *actions, *next_rows;                        /* [rows, dimensions], [rows] */
    int64_t *heads, *pending, *changed;               /* [lanes]; [2 lanes]: rows whose leaves a step changes */
    double *pending_returns, *leaves;                 /* [n_step, lanes], [2 lanes] */
    const double *discount_powers, *step_rewards;     /* [n_step + 1], [lanes] */
    const int64_t *step_lanes, *step_actions;         /* [lanes], [lanes, dimensions] */
    const float *step_observations;                   /* [lanes, observation_size] */
    const uint8_t *ended;                             /* [2, lanes]: terminated, truncated */
} Rows;

/* Who does which part of a chain, and where: the thread's own memory, and that of the chain's first thread. */
typedef struct {
    int slot, place, part, parts;
} Place;

/* Work for several threads; pool.c explains it. */
typedef struct {
    void (*work)(const void *context, int chain, int stage, Place at);
    const void *context;
    int threads, chains, whole, parts, stages; /* chains before `whole` have one part */
} Job;

/* The size of a place: all are aligned alike. */
static inline size_t aligned(size_t floats)
{
    return (floats + ALIGNED_FLOATS - 1) / ALIGNED_FLOATS * ALIGNED_FLOATS;
}

/* Where a part of `total` begins, in whole units. */
static inline int cut(int total, int part, int parts, int unit)
{
    long units = (total + unit - 1) / unit, from = units * part / parts * unit;
    return from < total ? (int)from : total;
}

/* product.c: out = left · right, or added to what is there; form 'T' reads a matrix transposed, strides are those of its
   rows in memory. */
void product(char left_form, char right_form, int rows, int columns, int inner, const float *left, int left_stride,
             const float *right, int right_stride, int adds, float *out, int out_stride);

/* pool.c */
void run_job(const Job *job);

/* sum_tree.c */
int revalued_tree_set(const Tree *t, const int64_t *indices, const double *values, int count, int only_positive);

/* folding.c */
void fold_critic(const Update *u, const Parameters *p, const Folding *f, int critic, Place at);

/* passes.c */
void predict_others(const Update *u, int critic, Place at);
void predict_online(const Update *u, int critic, int store, Place at);
void backward_rows(const Update *u, int critic, int store, Place at);
void backward_outer(const Update *u, int critic, int store, Place at);
void backward_inner(const Update *u, int critic, int store, Place at);

/* loss.c */
int count_wrong_actions(const Update *u, const Loss *l);
void find_targets(const Update *u, const Loss *l, Place at);
void find_gradients(const Update *u, const Loss *l, int critic, int store, Place at);
void find_priorities(const Update *u, const Loss *l);

#endif
