/* Places that users share. */
#include "server/base/places.h"

#include <string.h>

size_t places_find(const char *const *places, size_t count, size_t each, const char *user)
{
    size_t place = count, own = 0;
    for (size_t i = 0; i < count; i++) {
        if (places[i] == NULL)
            place = i;
        else
            own += strcmp(places[i], user) == 0;
    }
    return own < each ? place : count;
}
