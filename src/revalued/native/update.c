/* The update as a whole: which critic is where when, and Adam. */

#include "kernels.h"

#include <math.h>

enum { ROWS_OF_TARGETS = 64 }; /* for one thread at a time */

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

/* Adam for a part of a critic; the first two layers come last, to be in the cache when they are folded. */
static void step_critic(const Update *u, const Step *step, float factor, int critic, Place at)
{
    int D = u->inputs, H = u->hidden, O = u->outputs;
    const int sizes[NUM_PARAMETERS] = {D * H, H * H, H, H * H, H, H, H, H * O, O};
    const int decaying[NUM_PARAMETERS] = {(D - 1) * H, H * H, 0, H * H, 0, 0, 0, H * O, 0}; /* weights, not biases */
    for (int i = NUM_PARAMETERS - 1; i >= 0; i--) {
        int from = cut(sizes[i], at.part, at.parts, ALIGNED_FLOATS);
        int to = cut(sizes[i], at.part + 1, at.parts, ALIGNED_FLOATS);
        size_t place = (size_t)critic * sizes[i] + from;
        const float *gradient = u->gradients.all[i] + at.place * aligned(sizes[i]) + from;
        if (step->keep < 1)
            shrink(u->online.all[i] + place, (to < decaying[i] ? to : decaying[i]) - from, step->keep);
        adam(u->online.all[i] + place, gradient, u->first_moment.all[i] + place, u->second_moment.all[i] + place,
             u->target.all[i] + place, to - from, factor, *step);
    }
}

/* Clipping, Adam and the target's move. */
static void clip_and_step(const Update *u, const Step *step, int critic, Place at)
{
    double squares = 0;
    for (int part = 0; part < at.parts; part++)
        squares += u->backward.squares[at.place * u->parts + part];
    float norm = sqrt(squares);
    if (at.part == 0)
        step->norms[critic] = norm;
    if (isfinite(norm)) /* else the caller will refuse to go on, with parameters that are still numbers */
        step_critic(u, step, norm > step->clip ? step->clip / norm : 1, critic, at);
}

/* An update in the hands of several threads. */
typedef struct {
    const Update *u;
    const Loss *l; /* NULL where the loss is computed elsewhere */
    const Step *step;
} Task;

static void fold(const void *context, int critic, int stage, Place at)
{
    const Update *u = ((const Task *)context)->u;
    fold_critic(u, &u->online, &u->online_folding, critic, at);
    fold_critic(u, &u->target, &u->target_folding, critic, at);
}

static void predict(const void *context, int critic, int stage, Place at)
{
    const Task *task = context;
    predict_others(task->u, critic, at);
    if (!task->l)
        predict_online(task->u, critic, critic, at);
}

static void set_targets(const void *context, int chain, int stage, Place at)
{
    const Task *task = context;
    find_targets(task->u, task->l, at);
}

/* What follows the targets, for one critic; a stage needs all parts of the one before. */
enum { ROWS, OUTER_WEIGHTS, INNER_WEIGHTS, STEP, FOLD, LEARNING_STAGES };

static void learn(const void *context, int critic, int stage, Place at)
{
    const Task *task = context;
    const Update *u = task->u;
    int store = task->l ? at.place : critic;
    switch (stage) {
    case ROWS:
        if (task->l) {
            predict_online(u, critic, store, at);
            find_gradients(u, task->l, critic, store, at);
        }
        backward_rows(u, critic, store, at);
        break;
    case OUTER_WEIGHTS:
        backward_outer(u, critic, store, at);
        break;
    case INNER_WEIGHTS:
        backward_inner(u, critic, store, at);
        break;
    case STEP:
        clip_and_step(u, task->step, critic, at);
        break;
    default:
        fold(context, critic, stage, at);
    }
}

/* Do something with every critic, in as many stages. */
static void for_critics(void work(const void *, int, int, Place), const Task *task, int stages)
{
    const Update *u = task->u;
    run_job(&(Job){work, task, u->threads, u->critics, u->whole, u->parts, stages});
}

/* What depends on parameters alone. An update leaves it behind for the next one, and for choosing actions; it has to be
   called where parameters come from elsewhere. */
void revalued_fold(const Update *u)
{
    for_critics(fold, &(Task){u, NULL, NULL}, 1);
}

/* The first half of an update whose loss is computed elsewhere: all outputs, and what the second half needs. */
void revalued_predict(const Update *u)
{
    for_critics(predict, &(Task){u, NULL, NULL}, 1);
}

/* The second half, from the output gradients. */
void revalued_step(const Update *u, const Step *step)
{
    for_critics(learn, &(Task){u, NULL, step}, LEARNING_STAGES);
}

static void sum_up(const Update *u, const Loss *l, const Step *step)
{
    double norms = 0;
    for (int i = 0; i < NUM_SUMS; i++) {
        double sum = 0;
        for (int set = 0; set < u->critics * u->parts; set++)
            sum += l->sums[set * NUM_SUMS + i];
        l->metrics[i] = i == LOSS ? sum : sum / ((double)u->rows * u->critics);
    }
    for (int k = 0; k < u->critics; k++)
        norms += step->norms[k];
    l->metrics[GRADIENT_NORM] = norms / u->critics;
}

static int all_finite(const float *x, int size)
{
    int finite = 1;
    for (int i = 0; i < size; i++)
        finite &= isfinite(x[i]) != 0;
    return finite;
}

/* A whole update. Critics depend on each other through the target alone: once that is known, each goes forward, back
   and through Adam in one go, while its parameters and activations are in the cache. Returns how many actions are none
   of the choices, −1 where a target is not finite (in both cases nothing has changed), −2 where a TD error is not, −3
   where a gradient is not, else 0. */
int revalued_update(const Update *u, const Loss *l, const Step *step)
{
    const Task task = {u, l, step};
    int wrong = count_wrong_actions(u, l);
    if (wrong)
        return wrong;
    for_critics(predict, &task, 1);
    run_job(&(Job){set_targets, &task, u->threads, 1, 0, u->rows / ROWS_OF_TARGETS + 1, 1});
    if (!all_finite(l->targets, u->rows))
        return -1;
    for_critics(learn, &task, LEARNING_STAGES);
    find_priorities(u, l);
    sum_up(u, l, step);
    return !all_finite(l->priorities, u->rows) ? -2 : !isfinite(l->metrics[GRADIENT_NORM]) ? -3 : 0;
}
