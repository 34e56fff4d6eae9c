/* SPDX-License-Identifier: Apache-2.0
 *
 * Teams of threads, also in a process that was forked. GCC's OpenMP keeps a thread's team from one region to the next. After a
 * fork the child process has the record of its parent's team but none of the threads, so the next region of the thread that
 * forked would wait for ever. There, a helper thread without such a record begins the regions. It is made for the first of them
 * and stays.
 *
 * This state is the process's, as forking is: which thread has forked, and its helper. */
#include "base/team.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

typedef struct region {
    int threads;
    samba_team_work *work;
    void *argument;
} region;

/* Of the one thread that a forked process begins with. */
static _Thread_local bool forked;
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const region *asked; /* NULL: nothing to do */
    bool there;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note_fork(void)
{
    forked = true;
    helper.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    helper.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    helper.asked = NULL;
    helper.there = false;
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

static void begin(const region *r)
{
#pragma omp parallel num_threads(r->threads)
    r->work(r->argument, omp_get_thread_num(), omp_get_num_threads());
}

static void *help(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&helper.lock);
    for (;;) {
        while (!helper.asked)
            pthread_cond_wait(&helper.changed, &helper.lock);
        begin(helper.asked);
        helper.asked = NULL;
        pthread_cond_broadcast(&helper.changed);
    }
    return NULL;
}

/* Signals stay with the threads that the program knows. */
static bool call_helper(void)
{
    pthread_t thread;
    sigset_t all, before;
    if (helper.there)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    helper.there = pthread_create(&thread, NULL, help, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (helper.there)
        pthread_detach(thread);
    return helper.there;
}

static void begin_elsewhere(const region *r)
{
    pthread_mutex_lock(&helper.lock);
    if (!call_helper()) { /* no thread can be made: a team of one is a team */
        pthread_mutex_unlock(&helper.lock);
        r->work(r->argument, 0, 1);
        return;
    }
    helper.asked = r;
    pthread_cond_broadcast(&helper.changed);
    while (helper.asked)
        pthread_cond_wait(&helper.changed, &helper.lock);
    pthread_mutex_unlock(&helper.lock);
}

void samba_team(int threads, samba_team_work *work, void *argument)
{
    const region r = {threads, work, argument};
    if (threads <= 1)
        work(argument, 0, 1);
    else if (forked)
        begin_elsewhere(&r);
    else
        begin(&r);
}

int samba_team_offered(void) { return omp_get_max_threads(); }

bool samba_team_bound(void) { return omp_get_proc_bind() != omp_proc_bind_false; }
