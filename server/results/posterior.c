/* Comparing the posteriors of jobs by their requests. */
#include "server/results/posterior.h"
#include "core/model/model.h"
#include "models/models.h"

#include <stdlib.h>
#include <string.h>

#define QUOTED 60 /* characters of a setting */

static bool matters(const json_t *part, const char *key)
{
    static const char *const elsewhere[] = {"path", "test", "precision"};
    const char *name = json_string_value(json_object_get(part, "name"));
    const struct model_type *type = name != NULL ? model_find(name) : NULL;
    for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
        if (strcmp(key, elsewhere[k]) == 0)
            return false;
    size_t at = type != NULL ? param_find(type->params, key) : 0;
    return type == NULL || at == type->params.count || !type->params.specs[at].noise;
}

static void quote(struct sentence *how, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    sentence_add(how, "%.*s", QUOTED, text != NULL ? text : "?");
    free(text);
}

static void say(struct sentence *how, const char *part, const char *key, const json_t *one,
                const json_t *other)
{
    if (how == NULL)
        return;
    sentence_add(how, "%s.%s is ", part, key);
    quote(how, one);
    sentence_add(how, " and ");
    quote(how, other);
}

bool posterior_part_differs(const json_t *one, const json_t *other, const char *part,
                            struct sentence *how)
{
    json_t *ours = json_object_get(one, part), *theirs = json_object_get(other, part), *value;
    const char *key;
    json_object_foreach (ours, key, value) {
        const json_t *against = json_object_get(theirs, key);
        if (against == NULL || json_equal(value, against) || !matters(ours, key))
            continue;
        say(how, part, key, value, against);
        return true;
    }
    return false;
}

/* The hash of the test set, after a colon, does not matter. */
bool posterior_data_differ(const char *one, const char *other)
{
    if (one == NULL || other == NULL)
        return false;
    size_t n = strcspn(one, ":");
    return n != strcspn(other, ":") || strncmp(one, other, n) != 0;
}

bool posterior_differs(const struct job_row *one, const struct job_row *other, struct sentence *how)
{
    json_t *ours = one->request != NULL ? json_loads(one->request, 0, NULL) : NULL;
    json_t *theirs = other->request != NULL ? json_loads(other->request, 0, NULL) : NULL;
    bool differ = posterior_part_differs(ours, theirs, "model", how) ||
                  posterior_part_differs(ours, theirs, "data", how);
    json_decref(ours);
    json_decref(theirs);
    if (differ || !posterior_data_differ(one->data_sha256, other->data_sha256))
        return differ;
    sentence_add(how, "the data files differ");
    return true;
}
