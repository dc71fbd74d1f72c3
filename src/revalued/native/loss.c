/* The loss on utilities and its gradient, row by row; `revalued.algorithms.loss` says it with tensors. */

#include "kernels.h"

#include <math.h>

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

static inline float huber_gradient(float error)
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

static float target_of_row(const Update *u, const Loss *l, size_t row, Place at)
{
    size_t O = u->outputs, online_stride = u->rows * O, stride = u->target_passes * online_stride;
    const float *values = u->target_next + row * O, *chooser = u->online_next ? u->online_next + row * O : values;
    size_t chooser_stride = u->online_next ? online_stride : stride;
    const uint8_t *legal = l->legal ? l->legal + row * l->legal_stride : NULL;
    float sum = 0, *mean = u->scratch.outputs + at.slot * aligned(2 * O), *chooser_mean = mean + O;
    if (l->mean_of_max) {
        for (int k = 0; k < u->critics; k++)
            sum += next_value(l, chooser + k * chooser_stride, values + k * stride, legal);
        sum /= u->critics;
    } else if (l->num_drawn) {
        mean_of_critics(chooser, chooser_stride, u->critics, O, chooser_mean);
        sum = INFINITY;
        for (int d = 0; d < l->num_drawn; d++) {
            float own = next_value(l, chooser_mean, values + l->drawn[d] * stride, legal);
            sum = own >= sum || sum != sum ? sum : own; /* what is not a number stays visible */
        }
    } else {
        mean_of_critics(values, stride, u->critics, O, mean);
        if (u->online_next)
            mean_of_critics(chooser, chooser_stride, u->critics, O, chooser_mean);
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

/* The regulariser's sum over dimensions; adds minus its gradient in each chosen utility, scaled, to `descent`. */
VECTORISED static float regularise(const float *restrict chosen, const float *restrict target,
                                   const float *restrict weights, float scale, int dimensions, float *restrict descent)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < dimensions; i++) {
        float error = target[i] - chosen[i];
        sum += weights[i] * huber(error);
        descent[i] += scale * weights[i] * huber_gradient(error);
    }
    return sum;
}

/* One critic in one row: writes the gradient, adds to the sums, returns the size of the TD error. */
static float gradient_of_row(const Update *u, const Loss *l, int row, const float *online, const float *target,
                             float *gradient, double *sums)
{
    int N = l->dimensions, A = l->choices;
    const int64_t *actions = l->actions + (size_t)row * N;
    float chosen[N], target_chosen[N], weights[N], descent[N];
    float y = l->targets[row], of_batch = l->weights[row] / u->rows, q = 0, regulariser = 0;
    for (int i = 0; i < N; i++) {
        chosen[i] = online[i * A + actions[i]];
        q += chosen[i];
    }
    q = l->adds ? q : q / N;
    float error = y - q, of_td = l->adds ? huber_gradient(error) : huber_gradient(error) / N;
    for (int i = 0; i < N; i++)
        descent[i] = of_td;
    if (target) {
        for (int i = 0; i < N; i++)
            target_chosen[i] = target[i * A + actions[i]];
        regulariser_weights(y, chosen, l->quadratic, l->temperature, N, weights);
        float scale = l->reduces_by_mean ? 1.0f / N : 1;
        regulariser = scale * regularise(chosen, target_chosen, weights, scale * l->beta, N, descent);
    }
    for (int o = 0; o < N * A; o++)
        gradient[o] = 0;
    for (int i = 0; i < N; i++)
        gradient[i * A + actions[i]] = -of_batch * descent[i];
    sums[LOSS] += of_batch * (huber(error) + l->beta * regulariser);
    sums[TD_LOSS] += huber(error);
    sums[MEAN_Q] += q;
    sums[TD_ERROR] += fabsf(error);
    sums[REGULARISER] += regulariser;
    sums[MEAN_TARGET] += y;
    return fabsf(error);
}

/* Actions that are none of the choices; there must be none before anything else is done with them. */
int count_wrong_actions(const Update *u, const Loss *l)
{
    int wrong = 0;
    for (int i = 0; i < u->rows * l->dimensions; i++)
        wrong += l->actions[i] < 0 || l->actions[i] >= l->choices;
    return wrong;
}

/* Write the targets of a part of the rows. */
void find_targets(const Update *u, const Loss *l, Place at)
{
    for (int row = cut(u->rows, at.part, at.parts, 1), to = cut(u->rows, at.part + 1, at.parts, 1); row < to; row++)
        l->targets[row] = target_of_row(u, l, row, at);
}

/* Write one critic's output gradients and TD errors for a part of the rows, and the sums of what is logged. */
void find_gradients(const Update *u, const Loss *l, int critic, int store, Place at)
{
    size_t B = u->rows, O = u->outputs;
    double own_sums[NUM_SUMS] = {0}; /* the others' lie beside these */
    const float *target = u->target_passes == 2 ? u->target_next + (2 * critic + 1) * B * O : NULL;
    size_t kept = store * aligned(B * O);
    float *output = u->kept.output + kept, *gradient = u->kept.output_gradient + kept;
    for (int row = cut(B, at.part, at.parts, 1), to = cut(B, at.part + 1, at.parts, 1); row < to; row++)
        l->errors[critic * B + row] = gradient_of_row(u, l, row, output + row * O, target ? target + row * O : NULL,
                                                      gradient + row * O, own_sums);
    for (int i = 0; i < NUM_SUMS; i++)
        l->sums[(critic * u->parts + at.part) * NUM_SUMS + i] = own_sums[i];
}

/* Write the priorities, the critics' mean TD errors. */
void find_priorities(const Update *u, const Loss *l)
{
    for (int row = 0; row < u->rows; row++) {
        float sum = 0;
        for (int k = 0; k < u->critics; k++)
            sum += l->errors[(size_t)k * u->rows + row];
        l->priorities[row] = sum / u->critics;
    }
}
