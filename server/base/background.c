/* Threads of lower priority. */
#include "server/base/background.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#define NICE 10

static _Thread_local bool entered;

struct task {
    void (*work)(void *context);
    void *context;
};

void background_enter(void)
{
    entered = true;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

static void *run(void *arg)
{
    const struct task *task = arg;
    background_enter();
    task->work(task->context);
    return NULL;
}

void background_run(void (*work)(void *context), void *context)
{
    struct task task = {work, context};
    pthread_t thread;
    if (!entered && pthread_create(&thread, NULL, run, &task) == 0)
        pthread_join(thread, NULL);
    else
        work(context);
}
