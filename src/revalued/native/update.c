/* The update as a whole: which critic is where when, and Adam. */

#include "kernels.h"

#include <math.h>
#include <string.h>

/* Adam with moments m and v, and the target's move towards the new parameters, in one sweep over memory */
VECTORISED static void adam(float *restrict online, const float *restrict gradient, float *restrict m,
                            float *restrict v, float *restrict target, size_t size, float factor, Step step)
{
    for (size_t i = 0; i < size; i++) {
        float g = gradient[i] * factor;
        m[i] += step.rate1 * (g - m[i]);
        v[i] = v[i] * (1 - step.rate2) + step.rate2 * g * g;
        online[i] -= step.step_size * m[i] / (sqrtf(v[i]) / step.correction2 + step.epsilon);
        float distance = online[i] - target[i]; /* seen from the nearer end, so that a rate of 1 arrives */
        target[i] = step.target_rate < 0.5f ? target[i] + step.target_rate * distance
                                            : online[i] - (1 - step.target_rate) * distance;
    }
}

VECTORISED static void shrink(float *x, int size, float factor)
{
    for (int i = 0; i < size; i++)
        x[i] *= factor;
}

/* Adam for this thread's part of a critic; the first two layers come last, to be in the cache when they are folded. */
static void step_critic(const Update *u, const Step *step, float factor, int critic, Place at)
{
    int D = u->inputs, H = u->hidden, O = u->outputs;
    const int sizes[NUM_PARAMETERS] = {D * H, H * H, H, H * H, H, H, H, H * O, O};
    const int decaying[NUM_PARAMETERS] = {(D - 1) * H, H * H, 0, H * H, 0, 0, 0, H * O, 0}; /* weights, not biases */
    for (int i = NUM_PARAMETERS - 1; i >= 0; i--) {
        int from = cut(sizes[i], at.part, at.parts, ALIGNED_FLOATS);
        int to = cut(sizes[i], at.part + 1, at.parts, ALIGNED_FLOATS);
        size_t place = (size_t)critic * sizes[i] + from;
        const float *gradient = u->gradients.all[i] + (size_t)at.team * sizes[i] + from;
        if (step->keep < 1)
            shrink(u->online.all[i] + place, (to < decaying[i] ? to : decaying[i]) - from, step->keep);
        adam(u->online.all[i] + place, gradient, u->first_moment.all[i] + place, u->second_moment.all[i] + place,
             u->target.all[i] + place, to - from, factor, *step);
    }
}

static void fold(const Update *u, int critic, Place at)
{
    fold_critic(u, &u->online, &u->online_folding, critic, at);
    fold_critic(u, &u->target, &u->target_folding, critic, at);
}

/* Backward pass, clipping, Adam and the target's move for one critic; then what the next passes need of it. */
static void learn(const Update *u, const Step *step, int critic, int store, Place at)
{
    u->backward.squares[at.slot] = backward_critic(u, critic, store, at);
    if (at.parts > 1) {
#pragma omp barrier
    }
    double squares = 0;
    for (int part = 0; part < at.parts; part++)
        squares += u->backward.squares[at.team * at.parts + part];
    float norm = sqrt(squares);
    if (at.part == 0)
        step->norms[critic] = norm;
    if (isfinite(norm)) /* else the caller will refuse to go on, with parameters that are still numbers */
        step_critic(u, step, norm > step->clip ? step->clip / norm : 1, critic, at);
    if (at.parts > 1) {
#pragma omp barrier
    }
    fold(u, critic, at);
}

/* The critic that a thread turns to after another one (−1 at the beginning). Teams share them out beforehand, for their
   threads must agree. A thread by itself takes what nobody has begun: one that is slowed down by other programs then
   does fewer. No number depends on it, as long as all threads' memory is aligned alike: products round accordingly. */
static int next_critic(const Update *u, Place at, int before, int *claimed)
{
    int critic;
    if (at.parts > 1 || u->hidden % ALIGNED_FLOATS != 0)
        return before < 0 ? at.team : before + at.teams;
#pragma omp atomic capture
    critic = (*claimed)++;
    return critic;
}

/* What depends on parameters alone. An update leaves it behind for the next one, and for choosing actions; it has to be
   called where parameters come from elsewhere. */
void revalued_fold(const Update *u)
{
    int claimed = 0;
#pragma omp parallel num_threads(u->threads)
    {
        Place at = find_place(u->critics);
        for (int k = -1; (k = next_critic(u, at, k, &claimed)) < u->critics;)
            fold(u, k, at);
    }
}

/* The first half of an update whose loss is computed elsewhere: all outputs, and what the second half needs. */
void revalued_predict(const Update *u)
{
    int claimed = 0;
#pragma omp parallel num_threads(u->threads)
    {
        Place at = find_place(u->critics);
        for (int k = -1; (k = next_critic(u, at, k, &claimed)) < u->critics;) {
            predict_others(u, k, at);
            predict_online(u, k, k, at);
        }
    }
}

/* The second half, from the output gradients. */
void revalued_step(const Update *u, const Step *step)
{
    int claimed = 0;
#pragma omp parallel num_threads(u->threads)
    {
        Place at = find_place(u->critics);
        for (int k = -1; (k = next_critic(u, at, k, &claimed)) < u->critics;)
            learn(u, step, k, k, at);
    }
}

static void sum_up(const Update *u, const Loss *l, const Step *step)
{
    double norms = 0;
    for (int i = 0; i < NUM_SUMS; i++) {
        double sum = 0;
        for (int set = 0; set < u->critics * u->threads; set++)
            sum += l->sums[set * NUM_SUMS + i];
        l->metrics[i] = i == LOSS ? sum : sum / ((double)u->rows * u->critics);
    }
    for (int k = 0; k < u->critics; k++)
        norms += step->norms[k];
    l->metrics[GRADIENT_NORM] = norms / u->critics;
}

/* A whole update. Critics depend on each other through the target alone: once that is known, each goes forward, back
   and through Adam in one go, while its parameters and activations are in the cache. Returns how many actions are none
   of the choices, −1 where a target is not finite (in both cases nothing has changed), −2 where a TD error is not, −3
   where a gradient is not, else 0. */
int revalued_update(const Update *u, const Loss *l, const Step *step)
{
    int wrong = count_wrong_actions(u, l), targets_finite = 1, errors_finite = 1, claimed_first = 0, claimed = 0;
    if (wrong)
        return wrong;
    memset(l->sums, 0, sizeof(double) * NUM_SUMS * u->threads * u->critics);
#pragma omp parallel num_threads(u->threads)
    {
        Place at = find_place(u->critics);
        int threads = at.teams * at.parts;
        int from = cut(u->rows, at.slot, threads, 1), to = cut(u->rows, at.slot + 1, threads, 1);
        int own_from = cut(u->rows, at.part, at.parts, 1), own_to = cut(u->rows, at.part + 1, at.parts, 1);
        for (int k = -1; (k = next_critic(u, at, k, &claimed_first)) < u->critics;)
            predict_others(u, k, at);
#pragma omp barrier
        if (!find_targets(u, l, from, to, at)) {
#pragma omp atomic write
            targets_finite = 0;
        }
#pragma omp barrier
        if (targets_finite) {
            for (int k = -1; (k = next_critic(u, at, k, &claimed)) < u->critics;) {
                predict_online(u, k, at.team, at);
                find_gradients(u, l, k, at.team, own_from, own_to, l->sums + (k * u->threads + at.part) * NUM_SUMS);
                learn(u, step, k, at.team, at);
            }
#pragma omp barrier
            if (!find_priorities(u, l, from, to)) {
#pragma omp atomic write
                errors_finite = 0;
            }
        }
    }
    sum_up(u, l, step);
    return !targets_finite ? -1 : !errors_finite ? -2 : !isfinite(l->metrics[GRADIENT_NORM]) ? -3 : 0;
}
