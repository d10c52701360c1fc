/* Chains as bytes: a header with a checksum, then a copy of the flat state. */
#include "core/base/fingerprint.h"
#include "core/chain/parts.h"

#include <inttypes.h>
#include <string.h>

struct saved {
    char magic[8];
    uint64_t version, fingerprint, size, checksum;
};

#define MAGIC           "BRKCHAIN"
#define VERSION         1
#define VERSION_SCALED  2 /* a factor of the running tau follows it (core/samplers/sampler.c) */
#define VERSION_SQUARES 3 /* sums of tau^2; before, sums of tau */

/* The lowest version that describes the state, so that older programs can read it if possible. */
static uint64_t version_of(const struct chain *c)
{
    const struct sampler_type *sampler = c->config.sampler;
    bool running = sampler->needs_tau != NULL && sampler->needs_tau(c->config.params);
    if (config_noise_seen(&c->config))
        return VERSION_SQUARES;
    return running && c->source.sparse != NULL ? VERSION_SCALED : VERSION;
}

size_t chain_save_size(const struct chain *c)
{
    return sizeof(struct saved) + c->layout.total;
}

void chain_save(const struct chain *c, void *bytes)
{
    struct saved saved = {
        .version = version_of(c), .fingerprint = c->fingerprint, .size = c->layout.total};
    memcpy(saved.magic, MAGIC, sizeof saved.magic);
    saved.checksum = fingerprint_bytes(fingerprint_word(saved.version, c->fingerprint), c->state,
                                       c->layout.total);
    memcpy(bytes, &saved, sizeof saved);
    memcpy((unsigned char *)bytes + sizeof saved, c->state, c->layout.total);
}

enum err chain_saved_check(const void *bytes, size_t size, struct err_info *info)
{
    struct saved saved;
    if (size < sizeof saved)
        return err_set(info, ERR_CORRUPT, "saved chain: %zu bytes are too few", size);
    memcpy(&saved, bytes, sizeof saved);
    if (memcmp(saved.magic, MAGIC, sizeof saved.magic) != 0)
        return err_set(info, ERR_CORRUPT, "saved chain: these bytes are not a saved chain");
    if (saved.version < VERSION || saved.version > VERSION_SQUARES)
        return err_set(info, ERR_CORRUPT,
                       "saved chain: version %" PRIu64 ", this program reads %d to %d",
                       saved.version, VERSION, VERSION_SQUARES);
    if (saved.size != size - sizeof saved ||
        saved.checksum != fingerprint_bytes(fingerprint_word(saved.version, saved.fingerprint),
                                            (const unsigned char *)bytes + sizeof saved,
                                            size - sizeof saved))
        return err_set(info, ERR_CORRUPT, "saved chain: damaged (length or checksum)");
    return ERR_OK;
}

static enum err check_saved(const struct chain *c, const void *bytes, size_t size,
                            struct err_info *info)
{
    struct saved saved;
    enum err code = chain_saved_check(bytes, size, info);
    if (code != ERR_OK)
        return code;
    memcpy(&saved, bytes, sizeof saved);
    if (saved.fingerprint != c->fingerprint || saved.size != c->layout.total)
        return err_set(info, ERR_CONFLICT, "saved chain: belongs to another configuration");
    return ERR_OK;
}

/* Turns the sums of tau of an older state into sums of squares, as if tau had been constant. */
static void square_sums(struct chain *c)
{
    for (size_t j = 0; c->head->noise_count > 0 && j < c->config.model->d; j++)
        c->tau_squares[j] *= c->tau_squares[j] / (double)c->head->noise_count;
    if (config_adapts(&c->config))
        adapt_square_sums(&c->adapt);
}

enum err chain_load(struct chain **out, const struct chain_config *config, const void *bytes,
                    size_t size, struct err_info *info)
{
    struct chain *c;
    struct saved saved;
    enum err code = chain_allocate(&c, config, info);
    if (code != ERR_OK)
        return code;
    code = check_saved(c, bytes, size, info);
    if (code != ERR_OK) {
        chain_free(c);
        return code;
    }
    memcpy(&saved, bytes, sizeof saved);
    memcpy(c->state, (const unsigned char *)bytes + sizeof saved, c->layout.total);
    if (saved.version < VERSION_SQUARES && config_noise_seen(config))
        square_sums(c);
    c->config.step.values = NULL;
    c->config.start = (struct chain_start){0};
    *out = c;
    return ERR_OK;
}
