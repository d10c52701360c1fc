/* The registry. */
#include "models/models.h"

#include <string.h>

const struct model_type *const models[] = {
#define X(name) &model_##name,
    MODEL_LIST(X)
#undef X
};
const size_t model_count = sizeof models / sizeof models[0];

const struct model_type *model_find(const char *name)
{
    for (size_t i = 0; i < model_count; i++)
        if (strcmp(models[i]->name, name) == 0)
            return models[i];
    return NULL;
}
