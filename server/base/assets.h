/* Files of the repository that are compiled into the program.
 *
 * To embed another file, add a line to one of the lists: a name and the path from the top of the
 * repository. Steps of a schema are listed in the order in which they are applied. */
#ifndef BARKER_SERVER_BASE_ASSETS_H
#define BARKER_SERVER_BASE_ASSETS_H

#include <stddef.h>

#define ASSET_CATALOGUE_LIST(X)                                 \
    X(catalogue_1, "schema/migrations/0001_catalogue.sql")      \
    X(catalogue_2, "schema/migrations/0002_studies.sql")        \
    X(catalogue_3, "schema/migrations/0003_active.sql")         \
    X(catalogue_4, "schema/migrations/0004_plan.sql")           \
    X(catalogue_5, "schema/migrations/0005_stop_cause.sql")     \
    X(catalogue_6, "schema/migrations/0006_levels.sql")         \
    X(catalogue_7, "schema/migrations/0007_reference_size.sql") \
    X(catalogue_8, "schema/migrations/0008_uptime.sql")         \
    X(catalogue_9, "schema/migrations/0009_study_progress.sql") \
    X(catalogue_10, "schema/migrations/0010_owner_bytes.sql")

#define ASSET_JOBFILE_LIST(X)                       \
    X(jobfile_1, "schema/jobfile/0001_jobfile.sql") \
    X(jobfile_2, "schema/jobfile/0002_history.sql") \
    X(jobfile_3, "schema/jobfile/0003_part.sql")

#define ASSET_OTHER_LIST(X) X(openapi, "schema/openapi.json")

#define ASSET_LIST(X)       \
    ASSET_CATALOGUE_LIST(X) \
    ASSET_JOBFILE_LIST(X)   \
    ASSET_OTHER_LIST(X)

enum asset_id {
#define X(name, path) ASSET_##name,
    ASSET_LIST(X)
#undef X
};

struct asset {
    const char *path;
    const char *bytes; /* followed by a zero byte that `size` does not count */
    size_t size;
};

struct asset asset_get(enum asset_id id);

#endif
