/* Threads that share work without waiting for one that is not running.

   Work is cut into chains of stages, and each stage into parts, by sizes alone: who does a part never changes what is
   computed. Parts are claimed, by whoever is free; a stage opens when all parts of the one before are done. The thread
   that brings the work does everything that nobody else has claimed, so helpers that get no core are no loss; for what
   is in other hands it sleeps after a moment, which lets the system move the helper that holds it to the free core.
   Where it waits for them a lot, it tries whether it is faster alone, and if so does without them for a while. */

#include "kernels.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CHAINS = 1024, MOST_HELPERS = 1024, SPIN_NANOSECONDS = 200000 };
enum { JOBS_OF_A_TRIAL = 12, LONGEST_REST = 64 }; /* a multiple of any update's jobs; trials */

/* One chain: how many of its parts have been claimed, and how many are done. Claims carry the job's number, so that a
   helper which was stopped in the middle of claiming cannot claim a part of a later job. */
typedef struct {
    _Atomic uint64_t claims; /* 32 bits: the job's number; 16: the place of whoever began; 16: parts claimed */
    _Atomic int done;
    char unshared[48]; /* a cache line for itself */
} Chain;

static struct {
    pthread_mutex_t lock; /* of whoever has work for the helpers: one at a time */
    int helpers, is_alone, is_trying; /* how many; whether they are left out; whether that is to be tried out */
    int jobs, trials, rest_of;        /* of this trial; to go on in this way for, now and the next time */
    int64_t spent, waited, needed[2]; /* nanoseconds of this trial; of one with helpers and one alone, on the average */
    Job job;
    _Atomic uint32_t number; /* of the job, never 0: that is what chains have in between */
    _Atomic int unfinished;  /* chains */
    _Atomic uint32_t events; /* something may have become possible: what those who wait look at */
    _Atomic int asleep, delay;
    Chain chains[MOST_CHAINS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .number = 1, .rest_of = 1, .trials = 1};

static int parts_of(int chain)
{
    return chain < pool.job.whole ? 1 : pool.job.parts;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void announce(void)
{
    atomic_fetch_add(&pool.events, 1);
    if (atomic_load(&pool.asleep) > 0)
        syscall(SYS_futex, &pool.events, FUTEX_WAKE_PRIVATE, MOST_HELPERS + 1, NULL, NULL, 0);
}

/* Wait for an event after the one seen: first awake, for the next stage is mostly near, then asleep. */
static void wait_for_event(uint32_t seen)
{
    for (int64_t until = now() + SPIN_NANOSECONDS; now() < until;)
        if (atomic_load(&pool.events) != seen)
            return;
    atomic_fetch_add(&pool.asleep, 1);
    syscall(SYS_futex, &pool.events, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&pool.asleep, 1);
}

/* For tests: helpers that sleep now and then, up to so many microseconds. */
void revalued_delay_helpers(int microseconds)
{
    atomic_store(&pool.delay, microseconds);
}

static void perhaps_sleep(int slot)
{
    static _Thread_local unsigned random;
    int delay = atomic_load(&pool.delay);
    if (slot > 0 && delay > 0 && rand_r(&random) % 3 == 0)
        usleep(rand_r(&random) % delay);
}

/* Claim the next part of a chain if its stage is open: returns its number, or −1. A chain that nobody has begun is
   begun only where `begins`. */
static int claim(int chain, uint32_t number, int slot, int begins, int *place)
{
    Chain *c = &pool.chains[chain];
    uint64_t word = atomic_load(&c->claims);
    for (;;) {
        int next = word & 0xffff, parts = parts_of(chain);
        if (word >> 32 != number || (next == 0) != begins || next >= pool.job.stages * parts ||
            atomic_load(&c->done) < next / parts * parts)
            return -1;
        uint64_t claimed = word + 1 + (next == 0 ? (uint64_t)slot << 16 : 0);
        if (atomic_compare_exchange_weak(&c->claims, &word, claimed)) {
            *place = claimed >> 16 & 0xffff;
            return next;
        }
    }
}

/* Do parts of the job until there is none left to claim: of the own chain if possible, for its numbers are in the
   cache; else of one that nobody has begun; else of any. A thread has one place, so it begins one chain at a time. */
static void take_part(uint32_t number, int slot)
{
    for (int own = -1, chain, part, place;;) {
        part = own < 0 ? -1 : claim(chain = own, number, slot, 0, &place);
        int may_begin = own < 0 || atomic_load(&pool.chains[own].done) == pool.job.stages * parts_of(own);
        for (int begins = may_begin; begins >= 0 && part < 0; begins--)
            for (int i = 0; i < pool.job.chains && part < 0; i++)
                if ((part = claim(chain = i, number, slot, begins, &place)) >= 0 && begins)
                    own = i;
        if (part < 0)
            return;
        int stages = pool.job.stages, parts = parts_of(chain);
        perhaps_sleep(slot);
        pool.job.work(pool.job.context, chain, part / parts, (Place){slot, place, part % parts, parts});
        perhaps_sleep(slot);
        /* from here on the job may be over, and another one in its place */
        int done = atomic_fetch_add(&pool.chains[chain].done, 1) + 1;
        int is_last = done == stages * parts && atomic_fetch_sub(&pool.unfinished, 1) == 1;
        if (is_last || (parts > 1 && done % parts == 0))
            announce();
    }
}

static void *help(void *argument)
{
    int slot = (int)(intptr_t)argument;
    if (pool.job.set_product_threads)
        pool.job.set_product_threads(1);
    for (;;) {
        uint32_t seen = atomic_load(&pool.events), number = atomic_load(&pool.number);
        if (slot < pool.job.threads)
            take_part(number, slot);
        wait_for_event(seen);
    }
    return NULL;
}

/* After a fork there are no helpers, whatever the parent was doing. */
static void forget_helpers(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pool.helpers = 0;
    atomic_store(&pool.asleep, 0);
}

/* Helpers see no signals, and nobody waits for them when the process ends. */
static void start_helpers(int wanted)
{
    static int is_prepared = 0;
    sigset_t all, before;
    pthread_t thread;
    if (pool.helpers >= wanted)
        return;
    if (!is_prepared)
        is_prepared = pthread_atfork(NULL, NULL, forget_helpers) == 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.helpers < wanted && pthread_create(&thread, NULL, help, (void *)(intptr_t)(pool.helpers + 1)) == 0) {
        pthread_detach(thread);
        pool.helpers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void run_with_helpers(const Job *job)
{
    uint32_t last = atomic_load(&pool.number), number = last == UINT32_MAX ? 1 : last + 1;
    pool.job = *job;
    start_helpers(job->threads - 1);
    atomic_store(&pool.unfinished, job->chains);
    for (int i = 0; i < job->chains; i++) {
        atomic_store(&pool.chains[i].done, 0);
        atomic_store(&pool.chains[i].claims, (uint64_t)number << 32);
    }
    atomic_store(&pool.number, number);
    announce();
    int64_t waited = 0;
    while (atomic_load(&pool.unfinished) > 0) {
        uint32_t seen = atomic_load(&pool.events);
        take_part(number, 0);
        int64_t waits_from = now();
        if (atomic_load(&pool.unfinished) > 0)
            wait_for_event(seen);
        waited += now() - waits_from;
    }
    pool.waited += waited;
    for (int i = 0; i < job->chains; i++) /* before the next job is written where late helpers may look */
        atomic_store(&pool.chains[i].claims, 0);
}

/* At the end of a trial, decide how to go on. Where an eighth of the time went by waiting, the other way is tried: with
   helpers or alone, whichever is faster on the average is kept to, for longer and longer as long as it wins. */
static void judge(void)
{
    int64_t *needed = &pool.needed[pool.is_alone];
    int is_disturbed = pool.is_alone || pool.waited > pool.spent / 8;
    *needed = pool.spent < *needed / 4 * 3 || !*needed ? pool.spent : *needed + (pool.spent - *needed) / 4;
    pool.jobs = pool.spent = pool.waited = 0;
    if (--pool.trials > 0)
        return;
    if (!pool.is_trying) { /* the other way is next, unless all is well */
        pool.is_alone ^= is_disturbed;
        pool.is_trying = is_disturbed;
        pool.rest_of = is_disturbed ? pool.rest_of : 1;
        pool.trials = 1;
        return;
    }
    int has_won = pool.is_alone == (pool.needed[1] / 16 * 15 < pool.needed[0]); /* who is no help gets in others' way */
    pool.rest_of = has_won ? (pool.rest_of + 3) / 4 : pool.rest_of < LONGEST_REST ? 4 * pool.rest_of : LONGEST_REST;
    pool.trials = pool.rest_of;
    pool.is_alone ^= !has_won;
    pool.is_trying = 0;
}

/* Carry out a job, with the helpers unless somebody else has them at the moment. */
void run_job(const Job *job)
{
    int before = job->set_product_threads ? job->set_product_threads(1) : 0;
    int is_shared = job->threads > 1 && job->chains <= MOST_CHAINS && job->set_product_threads;
    is_shared = is_shared && pthread_mutex_trylock(&pool.lock) == 0;
    int64_t began = now();
    if (is_shared && !pool.is_alone)
        run_with_helpers(job);
    else
        for (int chain = 0; chain < job->chains; chain++)
            for (int stage = 0, parts = chain < job->whole ? 1 : job->parts; stage < job->stages; stage++)
                for (int part = 0; part < parts; part++)
                    job->work(job->context, chain, stage, (Place){0, 0, part, parts});
    if (is_shared) {
        pool.spent += now() - began;
        if (++pool.jobs == JOBS_OF_A_TRIAL)
            judge();
        pthread_mutex_unlock(&pool.lock);
    }
    if (job->set_product_threads)
        job->set_product_threads(before);
}
