/* The recent use and the stored bytes of each user, for fairness and the disk quota. */
#include "server/base/clock.h"
#include "server/sched/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Use of a day ago counts half: fair to a user who comes once a week, and no user is held back for
 * what ran last month. */
#define HALF_LIFE_MS 86400000.0

struct usage *usage_make(struct sched *s, const char *user)
{
    struct usage *usage = s->usages;
    while (usage != NULL && strcmp(usage->user, user) != 0)
        usage = usage->next;
    if (usage != NULL || (usage = calloc(1, sizeof *usage)) == NULL)
        return usage;
    snprintf(usage->user, sizeof usage->user, "%s", user);
    usage->at_ms = clock_wall_ms();
    usage->next = s->usages;
    s->usages = usage;
    s->usage_count++;
    return usage;
}

double usage_recent(const struct usage *usage, uint64_t now)
{
    double age = now > usage->at_ms ? (double)(now - usage->at_ms) : 0.0;
    return usage->seconds * exp2(-age / HALF_LIFE_MS);
}

double usage_with_slices(const struct sched *s, const struct usage *usage, unsigned more,
                         uint64_t now)
{
    double slice = (double)s->config.slice_ms / 1000.0;
    return usage_recent(usage, now) + slice * (usage->busy + usage->ends + more);
}

bool usage_ahead(const struct sched *s, const struct usage *usage)
{
    uint64_t now = clock_wall_ms();
    double own = usage_recent(usage, now);
    for (const struct usage *u = s->usages; u != NULL; u = u->next)
        if (u != usage && u->busy + u->loads > 0 && usage_recent(u, now) < own)
            return true;
    return false;
}

bool usage_load(void *ctx, const struct user_row *row)
{
    struct usage *usage = usage_make(ctx, row->name);
    if (usage != NULL) {
        usage->seconds = row->usage;
        usage->at_ms = row->usage_ms;
    }
    return true;
}

/* Under the lock, which it releases. */
static void add(struct sched *s, struct usage *usage, double cpu_seconds)
{
    uint64_t now = clock_wall_ms();
    double seconds = usage_recent(usage, now) + cpu_seconds;
    usage->seconds = seconds;
    usage->at_ms = now;
    pthread_mutex_unlock(&s->lock);
    store_usage_note(s->store, usage->user, seconds, now);
}

void sched_charge_owner(struct sched *s, const struct job_run *job, double cpu_seconds)
{
    pthread_mutex_lock(&s->lock);
    add(s, job->usage, cpu_seconds);
}

void sched_charge(struct sched *s, const char *user, double cpu_seconds)
{
    pthread_mutex_lock(&s->lock);
    struct usage *usage = usage_make(s, user);
    if (usage != NULL)
        add(s, usage, cpu_seconds);
    else
        pthread_mutex_unlock(&s->lock);
}

bool sched_ahead(struct sched *s, const char *user)
{
    pthread_mutex_lock(&s->lock);
    const struct usage *usage = s->usages;
    while (usage != NULL && strcmp(usage->user, user) != 0)
        usage = usage->next;
    bool ahead = usage != NULL && usage_ahead(s, usage);
    pthread_mutex_unlock(&s->lock);
    return ahead;
}

/* Only bytes that the catalogue does not count yet: its sizes of job files are updated at state
 * changes. */
uint64_t sched_grown_bytes(struct sched *s, const char *owner)
{
    uint64_t known = 0, bytes = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct job_run *job = s->jobs; job != NULL; job = job->next) {
        if (job->file_bytes == job->stored_bytes || strcmp(job->owner, owner) != 0)
            continue;
        known += job->stored_bytes;
        bytes += job->file_bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return bytes > known ? bytes - known : 0;
}

/* The owner's totals in the catalogue, read again only when the catalogue has changed: they are
 * needed before every slice, and adding up thousands of jobs takes a millisecond. */
static enum err known_totals(struct sched *s, const struct job_run *job, struct owner_totals *out,
                             struct err_info *info)
{
    uint64_t at = store_changes(s->store);
    pthread_mutex_lock(&s->lock);
    bool known = job->usage->totals_at == at;
    *out = job->usage->totals;
    pthread_mutex_unlock(&s->lock);
    if (known)
        return ERR_OK;
    enum err code = store_owner_totals(s->store, job->owner, out, info);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&s->lock);
    job->usage->totals = *out;
    job->usage->totals_at = at;
    pthread_mutex_unlock(&s->lock);
    return ERR_OK;
}

enum err sched_quota_left(struct sched *s, const struct job_run *job, uint64_t *left,
                          struct err_info *info)
{
    struct owner_totals totals;
    *left = 0;
    enum err code = known_totals(s, job, &totals, info);
    if (code != ERR_OK)
        return code;
    uint64_t used = totals.stored_bytes + sched_grown_bytes(s, job->owner);
    *left = totals.most_stored_bytes > used ? totals.most_stored_bytes - used : 0;
    return ERR_OK;
}
