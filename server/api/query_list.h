/* Choosing parameters and chains in query strings: params=theta[1],U[3,7] and chains=1,3. */
#ifndef BARKER_SERVER_API_QUERY_LIST_H
#define BARKER_SERVER_API_QUERY_LIST_H

#include "server/api/api.h"
#include "server/store/jobfile.h"

/* Numbers of columns or of chains, in the order of the query; none twice. */
struct query_numbers {
    uint32_t *at;
    size_t count;
};
void query_numbers_release(struct query_numbers *numbers);

/* The items of a list. Commas inside brackets do not separate; blanks around items are dropped. The
 * items lie in `text`, which is owned and freed with query_names_release. False: no memory. */
struct query_names {
    char *text;
    const char **items;
    size_t count;
};
bool query_names_split(struct query_names *out, const char *text);
void query_names_release(struct query_names *list);

/* The saved columns that `params` names, at most `most`; without it the first `fallback`
 * columns, or fewer where there are fewer. False: answered, with every name that is unknown or
 * is there twice. */
bool query_parameters(struct call *call, struct jobfile *file, size_t fallback, size_t most,
                      struct query_numbers *out);
/* The same for `chains` out of 1 .. total; without it all. */
bool query_chains(struct call *call, uint32_t total, struct query_numbers *out);

#endif
