/* The rest of an update, critic by critic: backward pass, clipping, Adam, and the target's move. */

#include "kernels.h"

#include <math.h>
#include <omp.h>

typedef struct {
    const float *output_gradient; /* [K, B, O] */
    float *norms;                 /* [K], of the gradients before clipping */
    float clip, step_size, rate1, rate2, correction2, epsilon, target_rate;
} Step;

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

static void step_critic(const Update *u, const Step *step, float factor, int critic, Place at)
{
    int D = u->inputs, H = u->hidden, O = u->outputs;
    const int sizes[NUM_PARAMETERS] = {D * H, H * H, H, H * H, H, H, H, H * O, O};
    for (int i = 0; i < NUM_PARAMETERS; i++) {
        int from = cut(sizes[i], at.part, at.parts, ALIGNED_FLOATS);
        int to = cut(sizes[i], at.part + 1, at.parts, ALIGNED_FLOATS);
        size_t place = (size_t)critic * sizes[i] + from;
        adam(u->online.all[i] + place, u->gradients.all[i] + place, u->first_moment.all[i] + place,
             u->second_moment.all[i] + place, u->target.all[i] + place, to - from, factor, *step);
    }
}

void revalued_step(const Update *u, const Step *step)
{
#pragma omp parallel num_threads(u->threads)
    {
        Place at = find_place(u->critics);
        for (int k = at.team; k < u->critics; k += at.teams) {
            u->slopes.squares[at.slot] = backward_critic(u, step->output_gradient, k, at);
            if (at.parts > 1) {
#pragma omp barrier
            }
            double squares = 0;
            for (int part = 0; part < at.parts; part++)
                squares += u->slopes.squares[at.team * at.parts + part];
            float norm = sqrt(squares);
            if (at.part == 0)
                step->norms[k] = norm;
            step_critic(u, step, norm > step->clip ? step->clip / norm : 1, k, at);
        }
    }
}
