/* Threads that share work without waiting for one that is not running.

   Work is cut into chains of stages, and each stage into parts, by sizes alone: who does a part never changes what is
   computed. Parts are claimed, by whoever is free; a stage opens when all parts of the one before are done. The thread
   that brings the work does everything that nobody else has claimed, so helpers that get no core are no loss; for what
   is in other hands it sleeps after a moment, which lets the system move the helper that holds it to the free core.
   Where it waits for them a lot, it goes on alone and looks whether a core stands idle then: the helpers come back when
   one does. So runs that share a machine come to share out its cores. */

#define _GNU_SOURCE
#include "kernels.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CHAINS = 1024, MOST_HELPERS = 1024, SPIN_NANOSECONDS = 200000 };
enum { JOBS_OF_A_TRIAL = 12, MOST_PATIENCE = 85 }; /* a multiple of any update's jobs; trials */
enum { SHORTEST_LOOK = 30000000, TICK = 10000000 }; /* nanoseconds: at idle cores, and of what they are counted in */

/* One chain: how many of its parts have been claimed, and how many are done. Claims carry the job's number, so that a
   helper which was stopped in the middle of claiming cannot claim a part of a later job. */
typedef struct {
    _Atomic uint64_t claims; /* 32 bits: the job's number; 16: the place of whoever began; 16: parts claimed */
    _Atomic int done;
    char unshared[48]; /* a cache line for itself */
} Chain;

static struct {
    pthread_mutex_t lock;       /* of whoever has work for the helpers: one at a time */
    int helpers, is_alone;      /* how many; whether they are left out */
    int jobs, trials, patience; /* of this trial; that may be disturbed from now on, and from the next time on */
    int64_t spent, waited;      /* nanoseconds of this trial */
    int64_t displaced;          /* how often threads had to leave a core to others, before this trial */
    int64_t looked_at, idle;    /* when idle cores were looked at last, and how long they had been idle */
    Job job;
    _Atomic uint32_t number; /* of the job, never 0: that is what chains have in between */
    _Atomic int unfinished;  /* chains */
    _Atomic uint32_t events; /* something may have become possible: what those who wait look at */
    _Atomic int asleep, delay;
    Chain chains[MOST_CHAINS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .number = 1};

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

/* For tests: helpers that always take part, and sleep now and then, up to so many microseconds. */
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

/* Whether half a core that this process may use, or more, stood idle since the last look; yes if nobody can tell. */
static int had_room(void)
{
    int64_t idle = 0, unused, awaiting_disk, before = pool.idle, since = pool.looked_at;
    char line[512], core[5];
    cpu_set_t usable;
    pool.looked_at = now();
    FILE *file = sched_getaffinity(0, sizeof usable, &usable) == 0 ? fopen("/proc/stat", "r") : NULL;
    while (file && fgets(line, sizeof line, file) && line[0] == 'c')
        if (sscanf(line, "cpu%4[0-9] %*d %*d %*d %ld %ld", core, &unused, &awaiting_disk) == 3 &&
            CPU_ISSET(atoi(core), &usable))
            idle += unused + awaiting_disk;
    if (file)
        fclose(file);
    pool.idle = idle * TICK;
    return !idle || pool.idle - before >= (pool.looked_at - since) / 2;
}

/* At the end of a trial, decide how to go on. One in which a sixteenth of the time went by waiting and threads had to
   leave their cores was disturbed; if a core stands idle nevertheless, more of them are put up with the next time. */
static void judge(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    int is_disturbed = pool.waited > pool.spent / 16 && usage.ru_nivcsw > pool.displaced + 1;
    pool.displaced = usage.ru_nivcsw;
    pool.jobs = pool.spent = pool.waited = 0;
    if (pool.is_alone && now() - pool.looked_at > SHORTEST_LOOK) {
        pool.is_alone = !had_room();
        int more = pool.patience < MOST_PATIENCE ? 4 * pool.patience + 1 : MOST_PATIENCE;
        pool.trials = pool.patience = pool.is_alone ? 0 : more;
    } else if (!pool.is_alone && is_disturbed && --pool.trials <= 0) {
        pool.is_alone = 1;
        had_room(); /* begins to look */
    }
}

/* Carry out a job, with the helpers unless somebody else has them at the moment. */
void run_job(const Job *job)
{
    int is_shared = job->threads > 1 && job->chains <= MOST_CHAINS && pthread_mutex_trylock(&pool.lock) == 0;
    int64_t began = now();
    int is_test = atomic_load(&pool.delay) > 0;
    if (is_shared && (is_test || !pool.is_alone))
        run_with_helpers(job);
    else
        for (int chain = 0; chain < job->chains; chain++)
            for (int stage = 0, parts = chain < job->whole ? 1 : job->parts; stage < job->stages; stage++)
                for (int part = 0; part < parts; part++)
                    job->work(job->context, chain, stage, (Place){0, 0, part, parts});
    if (is_shared) {
        pool.spent += now() - began;
        if (!is_test && ++pool.jobs == JOBS_OF_A_TRIAL)
            judge();
        pthread_mutex_unlock(&pool.lock);
    }
}
