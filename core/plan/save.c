/* Plans as bytes: a header, the fields one after the other, then the frame and the arrays that the
 * header lists. */
#include "core/base/fingerprint.h"
#include "core/model/frame.h"
#include "core/plan/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC   "BRKPLAN1"
#define VERSION 5

struct head {
    char magic[8];
    uint64_t version, size, checksum; /* of the whole, with 0 in its place */
    uint64_t d, frame_bytes, has_sigma, has_values, has_spread; /* arrays of d numbers: how many */
};

/* The saved fields, in this order, each with the size of its member. `old` is the offset in version
 * 1, which was a copy of struct plan; later fields have none. To add a field, raise VERSION and
 * append F(member, VERSION, 0): it is 0 in older plans. */
struct field {
    size_t member, size, since, old;
};

#define OLD_BYTES   6064
#define POINTS_MOST 64 /* of start values */
#define F(name, version, old_offset) \
    {offsetof(struct plan, name), sizeof((struct plan *)NULL)->name, version, old_offset},
static const struct field fields[] = {
    /* clang-format off */
    F(d, 1, 0)
    F(control, 1, 16)
    F(variant, 1, 17)
    F(recentred, 1, 18)
    F(one_in, 1, 19)
    F(precondition, 1, 20)
    F(step.kind, 1, 24)
    F(step.value, 1, 32)
    F(step.count, 1, 48)
    F(step.t0, 1, 56)
    F(step.gamma, 1, 64)
    F(step.fraction, 1, 72)
    F(batch_size, 1, 88)
    F(warmup, 1, 96)
    F(iterations, 1, 104)
    F(thin, 1, 112)
    F(start.kind, 1, 120)
    F(start.map_steps, 1, 136)
    F(sigma_asked, 1, 152)
    F(within_target, 1, 160)
    F(centre.sought, 1, 168)
    F(centre.converged, 1, 169)
    F(centre.steps, 1, 172)
    F(centre.passes, 1, 176)
    F(centre.log_density, 1, 184)
    F(centre.gradient_norm, 1, 192)
    F(centre.seconds, 1, 200)
    F(checks.noise_plain, 1, 208)
    F(checks.noise_control, 1, 216)
    F(checks.energy, 1, 224)
    F(checks.energy_half, 1, 232)
    F(checks.energy_mcse, 1, 240)
    F(checks.sd_error, 1, 248)
    F(checks.mean_error, 1, 256)
    F(checks.autocorrelation, 1, 264)
    F(checks.ess, 1, 272)
    F(checks.iteration_seconds, 1, 280)
    F(checks.seconds, 1, 288)
    F(why_count, 1, 296)
    F(why, 1, 304)
    F(most_seconds, 3, 0)
    F(sampler, 4, 0)
    F(start.wide, 5, 0)
    F(start.count, 5, 0)
    F(centre.searches, 5, 0)
    F(centre.modes, 5, 0)
    /* clang-format on */
};
#undef F
#define FIELDS (sizeof fields / sizeof fields[0])

static size_t fields_bytes(uint64_t version)
{
    size_t bytes = 0;
    for (size_t i = 0; i < FIELDS; i++)
        bytes += fields[i].since <= version ? fields[i].size : 0;
    return version == 1 ? OLD_BYTES : bytes;
}

static size_t body_bytes(const struct head *head)
{
    uint64_t arrays = head->has_sigma + head->has_values + head->has_spread;
    return sizeof *head + fields_bytes(head->version) + head->frame_bytes +
           arrays * head->d * sizeof(double);
}

static uint64_t points_of(const struct plan *plan)
{
    uint64_t count = plan->start.count > 1 ? plan->start.count : 1;
    return plan->start.values != NULL ? count : 0;
}

static struct head head_of(const struct plan *plan)
{
    struct head head = {.magic = MAGIC,
                        .version = VERSION,
                        .d = plan->d,
                        .frame_bytes = plan->frame != NULL ? frame_save_size(plan->frame) : 0,
                        .has_sigma = plan->sigma != NULL,
                        .has_values = points_of(plan),
                        .has_spread = plan->start.spread != NULL};
    head.size = body_bytes(&head);
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
    struct head head = head_of(plan);
    size_t array = plan->d * sizeof(double);
    unsigned char *at = put(bytes, &head, sizeof head);
    for (size_t i = 0; i < FIELDS; i++)
        at = put(at, (const unsigned char *)plan + fields[i].member, fields[i].size);
    if (plan->frame != NULL)
        frame_save(plan->frame, at);
    at += head.frame_bytes;
    at = put(at, plan->sigma, array);
    at = put(at, plan->start.values, (size_t)head.has_values * array);
    put(at, plan->start.spread, array);
    uint64_t sum = fingerprint_bytes(VERSION, bytes, head.size);
    memcpy((unsigned char *)bytes + offsetof(struct head, checksum), &sum, sizeof sum);
}

static enum err check(const void *bytes, size_t size, struct head *head, struct err_info *info)
{
    if (size < sizeof *head)
        return err_set(info, ERR_CORRUPT, "saved plan: %zu bytes are too few", size);
    memcpy(head, bytes, sizeof *head);
    if (memcmp(head->magic, MAGIC, sizeof head->magic) != 0)
        return err_set(info, ERR_CORRUPT, "saved plan: these bytes are not a plan");
    if (head->version < 1 || head->version > VERSION)
        return err_set(info, ERR_CORRUPT,
                       "saved plan: version %" PRIu64 ", this program reads 1 to %d", head->version,
                       VERSION);
    if (head->size != size || head->d > size || head->frame_bytes > size || head->has_sigma > 1 ||
        head->has_values > POINTS_MOST || head->has_spread > 1 || body_bytes(head) != size)
        return err_set(info, ERR_CORRUPT, "saved plan: %zu bytes, which is not its length", size);
    unsigned char *copy = malloc(size);
    if (copy == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a saved plan");
    memcpy(copy, bytes, size);
    memset(copy + offsetof(struct head, checksum), 0, sizeof head->checksum);
    bool same = fingerprint_bytes(head->version, copy, size) == head->checksum;
    free(copy);
    return same ? ERR_OK : err_set(info, ERR_CORRUPT, "saved plan: damaged (checksum)");
}

static void take_fields(struct plan *plan, const unsigned char *from, uint64_t version)
{
    size_t at = 0;
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].since <= version) {
            memcpy((unsigned char *)plan + fields[i].member,
                   from + (version == 1 ? fields[i].old : at), fields[i].size);
            at += fields[i].size;
        }
}

/* The next array, or NULL when there is none; *ok becomes false when memory is out. */
static double *take(const unsigned char **at, uint64_t has, size_t size, bool *ok)
{
    if (!has)
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
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a saved plan");
    const unsigned char *at = (const unsigned char *)bytes + sizeof head;
    size_t array = head.d * sizeof(double);
    bool ok = true;
    take_fields(plan, at, head.version);
    at += fields_bytes(head.version);
    bool points =
        head.has_values <= 1 ? plan->start.count <= 1 : plan->start.count == head.has_values;
    if (plan->d != head.d || !points || plan->why_count > PLAN_WHY_MAX)
        code = err_set(info, ERR_CORRUPT, "saved plan: its parts contradict each other");
    else if (plan->sampler[sizeof plan->sampler - 1] != '\0' ||
             (plan->sampler[0] != '\0' && sampler_find(plan->sampler) == NULL))
        code =
            err_set(info, ERR_CORRUPT, "saved plan: the sampler %.31s is not known", plan->sampler);
    else if (head.frame_bytes > 0)
        code = frame_load(&plan->frame, at, head.frame_bytes, info);
    at += head.frame_bytes;
    plan->sigma = take(&at, head.has_sigma, array, &ok);
    plan->start.values = take(&at, head.has_values, (size_t)head.has_values * array, &ok);
    plan->start.spread = take(&at, head.has_spread, array, &ok);
    plan->step.values = plan->sigma;
    if (code == ERR_OK && !ok)
        code = err_set(info, ERR_NO_MEMORY, "no memory for a saved plan");
    if (code != ERR_OK)
        plan_free(plan);
    else
        *out = plan;
    return code;
}
