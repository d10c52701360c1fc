/* Settings of the daemon: one table, filled from the environment (BARKERD_NAME), a file of lines
 * `name = value` (# begins a comment) and the command line (`--name value`), each overriding the
 * one before it.
 *
 * To add a setting, add a row to CONFIG_LIST; environment, file, command line, --help, range errors
 * and the limits of GET /v1/info follow. */
#ifndef BARKER_SERVER_BASE_CONFIG_H
#define BARKER_SERVER_BASE_CONFIG_H

#include "core/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* X(kind, name, default, lowest, highest, limit, help). Text has no bounds. The unit is the end of
 * the name. `limit` is the name under which GET /v1/info shows a number, in bytes if it is in MiB;
 * "": it does not. */
#define CONFIG_LIST(X)                                                                           \
    X(text, listen, "127.0.0.1:8080", 0, 0, "", "address and port; port 0 takes any free one")   \
    X(text, data, "", 0, 0, "", "folder of data files that jobs may name; default STATE/data")   \
    X(text, state, "", 0, 0, "",                                                                 \
      "folder of the database; default $XDG_STATE_HOME/barkerd or ~/.local/state/barkerd")       \
    X(number, workers, 0, 0, 1024, "", "sampling threads; 0: one per core")                      \
    X(text, tls_cert, "", 0, 0, "", "file with the certificate chain (PEM)")                     \
    X(text, tls_key, "", 0, 0, "", "file with the private key (PEM)")                            \
    X(flag, behind_proxy, false, 0, 1, "",                                                       \
      "allow addresses beyond loopback without TLS: a proxy provides it")                        \
    X(text, hosts, "", 0, 0, "", "further host names of this server, separated by commas")       \
    X(number, slice_ms, 1000, 10, 60000, "", "time that a chain runs before the next one")       \
    X(number, http_threads, 2, 1, 64, "", "threads for HTTP connections")                        \
    X(number, request_threads, 24, 1, 256, "", "threads that carry out requests which may wait") \
    X(number, max_connections, 4096, 16, 60000, "", "open connections")                          \
    X(number, connections_per_address, 512, 0, 60000, "",                                        \
      "open connections of one address, unless behind_proxy; 0: no limit")                       \
    X(number, data_memory_mb, 0, 0, 1048576, "",                                                 \
      "memory for data, half of it for one user; 0: a quarter of the memory")                    \
    X(number, chain_memory_mb, 0, 0, 1048576, "",                                                \
      "memory for chains, half of it for one user; 0: a quarter of the memory")                  \
    X(number, request_memory_mb, 0, 0, 1048576, "",                                              \
      "memory for requests and replies, half for one user; 0: a sixteenth of the memory")        \
    X(number, unpacked_mb, 65536, 1, 1073741824, "", "largest unpacked size of a gzip file")     \
    X(number, cache_mb, 51200, 0, 1073741824, "",                                                \
      "disk space for the binary form of large data files; 0: none is made")                     \
    X(number, cache_from_mb, 32, 0, 1048576, "",                                                 \
      "data files of at least this size are read through the cache")                             \
    X(number, upload_mb, 2048, 1, 1048576, "upload_bytes", "largest uploaded file")              \
    X(number, min_free_mb, 512, 0, 1048576, "", "sampling pauses if less disk is free")          \
    X(number, trash_hours, 24, 0, 87600, "",                                                     \
      "how long a deleted job can be restored; 0: not at all")                                   \
    X(number, trash_mb, 4096, 0, 1073741824, "",                                                 \
      "the oldest deleted jobs are removed when the trash is larger")                            \
    X(number, user_active_jobs, 200, 1, 1000000, "active_jobs",                                  \
      "jobs of one user that are not finished")                                                  \
    X(number, user_running_chains, 64, 1, 100000, "running_chains",                              \
      "chains of one user that run at the same time")                                            \
    X(number, user_stored_mb, 51200, 1, 1073741824, "stored_bytes",                              \
      "disk space of one user's jobs and references, and the same again for uploads")            \
    X(number, user_jobs, 100000, 1, 1000000000, "jobs",                                          \
      "jobs of one user, including those that have ended or are in the trash")                   \
    X(number, user_references, 200, 1, 1000000, "references", "references of one user")          \
    X(number, user_tokens, 1000, 1, 1000000, "tokens",                                           \
      "tokens of one user; expired and revoked ones are removed first")                          \
    X(number, user_studies, 10000, 1, 1000000000, "studies", "studies of one user")              \
    X(number, user_files, 10000, 1, 100000, "files", "uploaded data files of one user")          \
    X(number, copies_mb, 102400, 1, 1073741824, "",                                              \
      "disk space for copies of job files that are downloaded; one user gets half of it")        \
    X(number, user_downloads, 8, 1, 10000, "downloads",                                          \
      "downloads of draws by one user at the same time")                                         \
    X(number, user_uploads, 8, 1, 10000, "uploads", "uploads of one user at the same time")      \
    X(number, max_iterations, 1000000000, 1, 1000000000000000, "iterations",                     \
      "iterations of one chain")                                                                 \
    X(number, max_dimension, 1000000, 1, 2000000, "dimension", "parameters of one model")        \
    X(number, max_chains, 64, 1, 1024, "chains", "chains of one job")                            \
    X(number, writes_per_minute, 600, 1, 1000000, "writes_per_minute",                           \
      "changing requests of one user")                                                           \
    X(number, reads_per_second, 20000, 1, 10000000, "", "reading requests of one user")          \
    X(number, verbose, 1, 0, 2, "", "log: 0 warnings, 1 also requests and job events, 2 everything")

struct config {
#define CONFIG_TYPE_text                             char *
#define CONFIG_TYPE_number                           int64_t
#define CONFIG_TYPE_flag                             bool
#define X(kind, name, fallback, lo, hi, limit, help) CONFIG_TYPE_##kind name;
    CONFIG_LIST(X)
#undef X
};

/* Defaults; release frees the texts. */
enum err config_init(struct config *config, struct err_info *info);
void config_release(struct config *config);

/* One setting by name. The message names the setting, the value and what is allowed. */
enum err config_set(struct config *config, const char *name, const char *value,
                    struct err_info *info);
/* Whether there is such a setting; if not, with a message. */
bool config_has(const char *name, struct err_info *info);
/* All settings of a file. The message names file and line. */
enum err config_file(struct config *config, const char *path, struct err_info *info);
/* Fills what depends on other settings or on the machine: state, data, workers, memory; checks the listen address against
 * TLS. `address` has room for 64 bytes. */
enum err config_finish(struct config *config, char *address, uint16_t *port, bool *loopback,
                       struct err_info *info);

/* The settings of memory that are 0, as shares of so much memory; config_finish takes that of the
 * machine or control group. */
void config_share_memory(struct config *config, uint64_t bytes);

/* All settings that the environment has, as BARKERD_LISTEN. */
enum err config_environment(struct config *config, struct err_info *info);

/* The numbers that have a limit, by that name. NULL: no memory. */
json_t *config_limits(const struct config *config);

/* The table for --help. */
void config_help(FILE *out);

#endif
