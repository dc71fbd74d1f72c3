/* The replay's rows: storing the usual step as `revalued.replay.buffer` does. */

#include "replay.h"

#include <string.h>

/* The arrays of `Replay`. Numbers whose type depends on how large they get come with their size in bytes. */
typedef struct {
    const Tree *tree;
    int64_t positions, num_lanes, max_choices;
    int observation_size, dimensions, n_step, action_bytes, next_row_bytes;
    float *observations; /* [rows, observation_size] */
    void *actions;       /* [rows, dimensions] */
    float *returns, *discounts;
    void *next_rows;
    int64_t *heads, *num_pending;  /* [num_lanes] */
    double *pending_returns;       /* [n_step, num_lanes] */
    const double *discount_powers; /* [n_step + 1] */
    int64_t *changed;              /* [2 num_lanes]: rows whose leaves a step changes */
    double *leaves;                /* [2 num_lanes] */
} Rows;

static void write_number(void *numbers, int bytes, int64_t index, int64_t value)
{
    if (bytes == 1)
        ((uint8_t *)numbers)[index] = value;
    else if (bytes == 2)
        ((uint16_t *)numbers)[index] = value;
    else if (bytes == 4)
        ((int32_t *)numbers)[index] = value;
    else
        ((int64_t *)numbers)[index] = value;
}

static int64_t row_of(const Rows *r, int64_t slot, int64_t lane)
{
    return slot % r->positions * r->num_lanes + lane;
}

/* Whether nothing ends in any of these lanes and one transition becomes complete in each: the usual step. */
static int is_usual(const Rows *r, const int64_t *lanes, int count, const int64_t *actions, const char *terminated,
                    const char *truncated)
{
    for (int i = 0; i < count; i++)
        if (terminated[i] || truncated[i] || r->heads[lanes[i]] < 0 || r->num_pending[lanes[i]] != r->n_step - 1)
            return 0;
    for (int i = 0; i < count * r->dimensions; i++)
        if (actions[i] < 0 || actions[i] >= r->max_choices)
            return 0;
    return 1;
}

/* Add one step of these lanes, which exist and are distinct. Returns how many transitions it has overwritten; -1 where
   it is not the usual step, or not a possible one, and then nothing has been written. */
int revalued_append(const Rows *r, const int64_t *lanes, int count, const int64_t *actions, const double *rewards,
                    const char *terminated, const char *truncated, const float *next_observations, double new_leaf)
{
    int overwritten = 0;
    int64_t L = r->num_lanes, D = r->observation_size, N = r->dimensions, oldest = (r->n_step - 1) * L;
    if (!is_usual(r, lanes, count, actions, terminated, truncated))
        return -1;
    for (int i = 0; i < count; i++) {
        int64_t lane = lanes[i], head = r->heads[lane]++;
        int64_t complete = row_of(r, head + 1 - r->n_step, lane), following = row_of(r, head + 1, lane);
        for (int64_t d = 0; d < N; d++)
            write_number(r->actions, r->action_bytes, row_of(r, head, lane) * N + d, actions[i * N + d]);
        memcpy(r->observations + following * D, next_observations + i * D, D * sizeof(float));
        /* steps grow a step older, the newest begins at 0, and the reward counts for all */
        double *pending = r->pending_returns + lane;
        for (int64_t at = oldest; at > 0; at -= L)
            pending[at] = pending[at - L];
        pending[0] = 0;
        for (int age = 0; age < r->n_step; age++)
            pending[age * L] += r->discount_powers[age] * rewards[i];
        r->returns[complete] = pending[oldest];
        r->discounts[complete] = r->discount_powers[r->n_step];
        write_number(r->next_rows, r->next_row_bytes, complete, following);
        /* what was overwritten leaves the tree in the same moment, so no sample can mix old and new */
        overwritten += r->tree->levels[0][following] != 0;
        r->changed[i] = following;
        r->changed[count + i] = complete;
        r->leaves[i] = 0;
        r->leaves[count + i] = new_leaf;
    }
    revalued_tree_set(r->tree, r->changed, r->leaves, 2 * count, 0);
    return overwritten;
}
