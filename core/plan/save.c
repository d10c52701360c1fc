/* Plans as bytes: a head, then what it says is there, then a checksum over all of it. */
#include "core/base/fingerprint.h"
#include "core/model/frame.h"
#include "core/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC   "BRKPLAN1"
#define VERSION 1

struct head {
    char magic[8];
    uint64_t version, size, checksum; /* of the whole, with 0 in its place */
    uint64_t d, frame_bytes, has_sigma, has_values, has_spread;
    struct plan plan; /* its pointers mean nothing */
};

static size_t array_bytes(const struct plan *plan)
{
    return plan->d * sizeof(double);
}

static struct head head_of(const struct plan *plan)
{
    struct head head = {.version = VERSION,
                        .d = plan->d,
                        .frame_bytes = plan->frame != NULL ? frame_save_size(plan->frame) : 0,
                        .has_sigma = plan->sigma != NULL,
                        .has_values = plan->start.values != NULL,
                        .has_spread = plan->start.spread != NULL};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    size_t arrays = head.has_sigma + head.has_values + head.has_spread;
    head.size = sizeof head + head.frame_bytes + arrays * array_bytes(plan);
    return head;
}

size_t plan_save_size(const struct plan *plan)
{
    return head_of(plan).size;
}

static unsigned char *put(unsigned char *at, const void *from, size_t size)
{
    if (from != NULL)
        memcpy(at, from, size);
    return from != NULL ? at + size : at;
}

void plan_save(const struct plan *plan, void *bytes)
{
    struct head head;
    memset(&head, 0, sizeof head);
    head = head_of(plan);
    memcpy(&head.plan, plan, sizeof *plan);
    head.plan.frame = NULL;
    head.plan.sigma = NULL;
    head.plan.step.values = head.plan.start.values = head.plan.start.spread = NULL;
    unsigned char *at = put(bytes, &head, sizeof head);
    if (plan->frame != NULL)
        frame_save(plan->frame, at);
    at += head.frame_bytes;
    at = put(at, plan->sigma, array_bytes(plan));
    at = put(at, plan->start.values, array_bytes(plan));
    put(at, plan->start.spread, array_bytes(plan));
    uint64_t sum = fingerprint_bytes(VERSION, bytes, head.size);
    memcpy((unsigned char *)bytes + offsetof(struct head, checksum), &sum, sizeof sum);
}

static enum err check(const void *bytes, size_t size, struct head *head, struct err_info *info)
{
    if (size < sizeof *head)
        return err_set(info, ERR_CORRUPT, "saved plan: %zu bytes are too few", size);
    memcpy(head, bytes, sizeof *head);
    if (memcmp(head->magic, MAGIC, sizeof head->magic) != 0 || head->version != VERSION)
        return err_set(info, ERR_CORRUPT, "saved plan: these bytes are no plan of this version");
    uint64_t sum = head->checksum, arrays = head->has_sigma + head->has_values + head->has_spread;
    if (head->size != size || head->d != head->plan.d || head->d > size || arrays > 3 ||
        head->frame_bytes > size ||
        sizeof *head + head->frame_bytes + arrays * head->d * sizeof(double) != size)
        return err_set(info, ERR_CORRUPT, "saved plan: damaged (length)");
    unsigned char *copy = malloc(size);
    if (copy == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a saved plan");
    memcpy(copy, bytes, size);
    memset(copy + offsetof(struct head, checksum), 0, sizeof sum);
    bool same = fingerprint_bytes(VERSION, copy, size) == sum;
    free(copy);
    return same ? ERR_OK : err_set(info, ERR_CORRUPT, "saved plan: damaged (checksum)");
}

/* The next array, or NULL when there is none; *ok becomes false without memory. */
static double *take(const unsigned char **at, uint64_t there, size_t size, bool *ok)
{
    if (!there)
        return NULL;
    double *array = malloc(size);
    *ok = *ok && array != NULL;
    if (array != NULL)
        memcpy(array, *at, size);
    *at += size;
    return array;
}

enum err plan_load(struct plan **out, const void *bytes, size_t size, struct err_info *info)
{
    struct head head;
    enum err code = check(bytes, size, &head, info);
    if (code != ERR_OK)
        return code;
    struct plan *plan = malloc(sizeof *plan);
    if (plan == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a saved plan");
    *plan = head.plan;
    const unsigned char *at = (const unsigned char *)bytes + sizeof head;
    bool ok = true;
    if (head.frame_bytes > 0)
        code = frame_load(&plan->frame, at, head.frame_bytes, info);
    at += head.frame_bytes;
    plan->sigma = take(&at, head.has_sigma, array_bytes(plan), &ok);
    plan->start.values = take(&at, head.has_values, array_bytes(plan), &ok);
    plan->start.spread = take(&at, head.has_spread, array_bytes(plan), &ok);
    plan->step.values = plan->sigma;
    if (code == ERR_OK && !ok)
        code = err_set(info, ERR_NO_MEMORY, "no memory for a saved plan");
    if (code != ERR_OK)
        plan_free(plan);
    else
        *out = plan;
    return code;
}
