/* The loss on utilities and its gradient, row by row; `revalued.algorithms.objective` says it with tensors. */

#include "kernels.h"

#include <math.h>
#include <omp.h>

enum { LOSS, TD_LOSS, MEAN_Q, TD_ERROR, REGULARISER, MEAN_TARGET, NUM_SUMS };

typedef struct {
    const int64_t *actions;                     /* [B, N] */
    const float *returns, *discounts, *weights; /* [B] */
    const uint8_t *legal;                       /* [B, N, A], [N, A] or NULL where every choice is legal */
    int legal_stride;                           /* from row to row: N·A or 0 */
    int dimensions, choices;                    /* N, A */
    int mean_of_max, adds;                      /* the ensemble's target; whether utilities are added, not averaged */
    int quadratic, reduces_by_mean;             /* of the regulariser */
    float beta, temperature;
    float *gradient;   /* [K, B, O], with respect to the online outputs */
    float *priorities; /* [B] */
    float *figures;    /* the sums above, as means where they are means */
    double *sums;      /* [T, NUM_SUMS] */
} Loss;

/* −expm1(−x) for x >= 0, to the rounding of float: exp(−x) = 2ⁿ exp(r) with |r| <= ln 2 / 2 */
static inline float saturating(float x)
{
    float within = x < 87 ? x : 87, n = rintf(within * -1.44269504f), r = -within - n * 0.693147181f;
    float series = r + r * r * (0.5f + r * (1.66666667e-1f + r * (4.16666667e-2f + r * (8.33333333e-3f +
                                                                r * (1.38888889e-3f + r * 1.98412698e-4f)))));
    union {
        int32_t bits;
        float value;
    } power = {.bits = ((int32_t)n + 127) << 23};
    float found = (1 - power.value) - power.value * series;
    return x == x ? found : x; /* what is not a number stays visible */
}

static inline float huber(float error)
{
    float size = fabsf(error), quadratic = size < 1 ? size : 1;
    return error == error ? quadratic * (size - 0.5f * quadratic) : error;
}

static inline float huber_slope(float error)
{
    return error < -1 ? -1 : error > 1 ? 1 : error;
}

/* The index of the largest legal value, or of one that is not a number. */
static int best_choice(const float *values, const uint8_t *legal, int choices)
{
    int best = -1;
    for (int a = 0; a < choices; a++) {
        if (legal && !legal[a])
            continue;
        if (best < 0 || values[a] > values[best] || values[a] != values[a])
            best = a;
        if (values[best] != values[best])
            return best;
    }
    return best;
}

VECTORISED static void mean_of_critics(const float *restrict outputs, size_t stride, int critics, int size,
                                       float *restrict out)
{
    for (int o = 0; o < size; o++)
        out[o] = 0;
    for (int k = 0; k < critics; k++, outputs += stride)
        for (int o = 0; o < size; o++)
            out[o] += outputs[o];
    for (int o = 0; o < size; o++)
        out[o] /= critics;
}

/* Σ_i over dimensions of what the next state's best sub-actions are worth to the critics with these utilities */
static float next_value(const Loss *l, const float *chooser, const float *values, const uint8_t *legal)
{
    float sum = 0;
    for (int i = 0; i < l->dimensions; i++) {
        int best = best_choice(chooser + i * l->choices, legal ? legal + i * l->choices : NULL, l->choices);
        sum += best < 0 ? -INFINITY : values[i * l->choices + best];
    }
    return sum;
}

static float target_of_row(const Update *u, const Loss *l, size_t row)
{
    size_t O = u->outputs, stride = (size_t)u->rows * O;
    const float *values = u->target_next + row * O, *chooser = u->online_next ? u->online_next + row * O : values;
    const uint8_t *legal = l->legal ? l->legal + row * l->legal_stride : NULL;
    float sum = 0, mean[O], chooser_mean[O];
    if (l->mean_of_max) {
        for (int k = 0; k < u->critics; k++)
            sum += next_value(l, chooser + k * stride, values + k * stride, legal);
        sum /= u->critics;
    } else {
        mean_of_critics(values, stride, u->critics, O, mean);
        if (u->online_next)
            mean_of_critics(chooser, stride, u->critics, O, chooser_mean);
        sum = next_value(l, u->online_next ? chooser_mean : mean, mean, legal);
    }
    return l->returns[row] + l->discounts[row] * (l->adds ? sum : sum / l->dimensions);
}

/* How strongly each dimension is held back, in one critic and row: the weights of equation 7, or of appendix I. */
VECTORISED static void regulariser_weights(float y, const float *restrict chosen, int quadratic, float temperature,
                                           int dimensions, float *restrict weights)
{
    if (quadratic)
        for (int i = 0; i < dimensions; i++) {
            float delta = (y - chosen[i]) / temperature, square = delta * delta;
            weights[i] = square > 1 ? 1 : square;
        }
    else
        for (int i = 0; i < dimensions; i++)
            weights[i] = saturating(fabsf(y - chosen[i]) / temperature);
}

/* The regulariser's sum over dimensions; adds its slope with respect to each chosen utility, scaled, to `slopes`. */
VECTORISED static float regularise(const float *restrict chosen, const float *restrict target,
                                   const float *restrict weights, float scale, int dimensions, float *restrict slopes)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < dimensions; i++) {
        float error = target[i] - chosen[i];
        sum += weights[i] * huber(error);
        slopes[i] += scale * weights[i] * huber_slope(error);
    }
    return sum;
}

/* One critic in one row: writes the gradient, adds to the sums, returns the size of the TD error. */
static float critic_in_row(const Update *u, const Loss *l, float y, size_t row, int critic, double *sums)
{
    int N = l->dimensions, A = l->choices;
    size_t place = ((size_t)critic * u->rows + row) * u->outputs;
    const int64_t *actions = l->actions + row * N;
    const float *online = u->online_now + place, *target = u->target_now ? u->target_now + place : NULL;
    float *gradient = l->gradient + place, chosen[N], target_chosen[N], weights[N], slopes[N];
    float q = 0, regulariser = 0, of_batch = l->weights[row] / u->rows;
    for (int i = 0; i < N; i++) {
        chosen[i] = online[i * A + actions[i]];
        q += chosen[i];
    }
    q = l->adds ? q : q / N;
    float error = y - q, slope = l->adds ? huber_slope(error) : huber_slope(error) / N;
    for (int i = 0; i < N; i++)
        slopes[i] = slope;
    if (target) {
        for (int i = 0; i < N; i++)
            target_chosen[i] = target[i * A + actions[i]];
        regulariser_weights(y, chosen, l->quadratic, l->temperature, N, weights);
        float share = l->reduces_by_mean ? 1.0f / N : 1;
        regulariser = share * regularise(chosen, target_chosen, weights, share * l->beta, N, slopes);
    }
    for (int o = 0; o < N * A; o++)
        gradient[o] = 0;
    for (int i = 0; i < N; i++)
        gradient[i * A + actions[i]] = -of_batch * slopes[i];
    sums[LOSS] += of_batch * (huber(error) + l->beta * regulariser);
    sums[TD_LOSS] += huber(error);
    sums[MEAN_Q] += q;
    sums[TD_ERROR] += fabsf(error);
    sums[REGULARISER] += regulariser;
    sums[MEAN_TARGET] += y;
    return fabsf(error);
}

/* Returns how many actions are none of the choices: then nothing has been computed. */
int revalued_utility_loss(const Update *u, const Loss *l)
{
    int wrong = 0;
    for (int i = 0; i < u->rows * l->dimensions; i++)
        wrong += l->actions[i] < 0 || l->actions[i] >= l->choices;
    if (wrong)
        return wrong;
#pragma omp parallel num_threads(u->threads)
    {
        int slot = omp_get_thread_num(), threads = omp_get_num_threads();
        double sums[NUM_SUMS] = {0};
        for (int row = cut(u->rows, slot, threads, 1); row < cut(u->rows, slot + 1, threads, 1); row++) {
            float y = target_of_row(u, l, row), error_size = 0;
            for (int k = 0; k < u->critics; k++)
                error_size += critic_in_row(u, l, y, row, k, sums);
            l->priorities[row] = error_size / u->critics;
        }
        for (int i = 0; i < NUM_SUMS; i++)
            l->sums[slot * NUM_SUMS + i] = sums[i];
#pragma omp barrier
        if (slot == 0)
            for (int i = 0; i < NUM_SUMS; i++) {
                double total = 0;
                for (int other = 0; other < threads; other++)
                    total += l->sums[other * NUM_SUMS + i];
                l->figures[i] = i == LOSS ? total : total / ((double)u->rows * u->critics);
            }
    }
    return 0;
}
