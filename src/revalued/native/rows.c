/* The replay's rows: storing the usual step as `revalued.replay.buffer` does. */

#include "kernels.h"

#include <string.h>

/* As NumPy rounds: products before they are added, and 0 + -0 is 0. */
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off", "signed-zeros")
#endif

/* Of a number that is not negative the low bytes come first, on all machines that PyTorch runs on. */
static void write_number(void *numbers, int bytes, int64_t index, int64_t value)
{
    memcpy((char *)numbers + index * bytes, &value, bytes);
}

static int64_t row_of(const Rows *r, int64_t slot, int64_t lane)
{
    return slot % r->positions * r->lanes + lane;
}

/* Whether nothing ends in any of these lanes and one transition becomes complete in each: the usual step. */
static int is_usual(const Rows *r, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t lane = r->step_lanes[i];
        if (r->ended[i] || r->ended[r->lanes + i] || r->heads[lane] < 0 || r->pending[lane] != r->n_step - 1)
            return 0;
    }
    for (int i = 0; i < count * r->dimensions; i++)
        if (r->step_actions[i] < 0 || r->step_actions[i] >= r->max_choices)
            return 0;
    return 1;
}

/* Add one step of as many lanes, which exist and are distinct. Returns how many transitions it has overwritten; −1
   where it is not the usual step, or not a possible one, and then nothing has been written. */
int revalued_append(const Rows *r, const Tree *tree, int count, double new_leaf)
{
    int overwritten = 0;
    int64_t L = r->lanes, D = r->observation_size, N = r->dimensions, oldest = (r->n_step - 1) * L;
    if (!is_usual(r, count))
        return -1;
    for (int i = 0; i < count; i++) {
        int64_t lane = r->step_lanes[i], head = r->heads[lane]++;
        int64_t complete = row_of(r, head + 1 - r->n_step, lane), following = row_of(r, head + 1, lane);
        for (int64_t d = 0; d < N; d++)
            write_number(r->actions, r->action_bytes, row_of(r, head, lane) * N + d, r->step_actions[i * N + d]);
        memcpy(r->observations + following * D, r->step_observations + i * D, D * sizeof(float));
        /* steps grow a step older, the newest begins at 0, and the reward counts for all */
        double *pending = r->pending_returns + lane;
        for (int64_t at = oldest; at > 0; at -= L)
            pending[at] = pending[at - L];
        pending[0] = 0;
        for (int age = 0; age < r->n_step; age++)
            pending[age * L] += r->discount_powers[age] * r->step_rewards[i];
        r->returns[complete] = pending[oldest];
        r->discounts[complete] = r->discount_powers[r->n_step];
        write_number(r->next_rows, r->next_row_bytes, complete, following);
        overwritten += tree->levels[0][following] != 0;
        r->changed[i] = following;
        r->changed[count + i] = complete;
        r->leaves[i] = 0;
        r->leaves[count + i] = new_leaf;
    }
    /* what was overwritten leaves the tree in the same moment, so no sample can mix old and new */
    revalued_tree_set(tree, r->changed, r->leaves, 2 * count, 0);
    return overwritten;
}
