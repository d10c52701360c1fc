/* Choosing parameters and chains in query strings: params=theta[1],U[3,7] and chains=1,3. */
#ifndef BARKER_SERVER_API_PICK_H
#define BARKER_SERVER_API_PICK_H

#include "server/api/api.h"
#include "server/store/jobfile.h"

/* Numbers of columns or of chains, in the order in which they were asked for; none twice. */
struct pick {
    uint32_t *at;
    size_t count;
};
void pick_release(struct pick *pick);

/* The items of a list. Commas inside brackets do not separate; blanks around items are dropped. The
 * items lie in `text`, which is owned and freed with pick_list_release. False: no memory. */
struct pick_list {
    char *text;
    const char **items;
    size_t count;
};
bool pick_split(struct pick_list *out, const char *text);
void pick_list_release(struct pick_list *list);

/* What `params` names among the saved columns, at most `most`; without it the first `fallback`
 * columns, or fewer where there are fewer. False: answered, with every name that is unknown or
 * stands there twice. */
bool pick_parameters(struct call *call, struct jobfile *file, size_t fallback, size_t most,
                     struct pick *out);
/* The same for `chains` out of 1 .. total; without it all. */
bool pick_chains(struct call *call, uint32_t total, struct pick *out);

#endif
