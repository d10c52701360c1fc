/* Fletcher's checksum in eight lanes of 64 bits: the sum of all words, and the sum of its partial
 * sums, which tells their order. */
#include "server/base/checksum.h"

#include <assert.h>
#include <string.h>

static void add_block(struct checksum *c, const void *block)
{
    vu words;
    memcpy(&words, block, sizeof words);
    c->sum += words;
    c->sums += c->sum;
}

void checksum_add(struct checksum *c, const void *bytes, size_t size)
{
    struct checksum local = *c;
    const char *at = bytes, *end = at + size;
    assert(size == 0 || c->bytes % CHECKSUM_BLOCK == 0);
    for (; end - at >= CHECKSUM_BLOCK; at += CHECKSUM_BLOCK)
        add_block(&local, at);
    if (at < end) {
        char block[CHECKSUM_BLOCK] = {0};
        memcpy(block, at, (size_t)(end - at));
        add_block(&local, block);
    }
    local.bytes += size;
    *c = local;
}

/* The finalizer of splitmix64: every bit of the input moves about half of the output's. */
static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) + 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

uint64_t checksum_value(const struct checksum *c)
{
    uint64_t h = mix(0, c->bytes);
    for (size_t k = 0; k < LANES; k++)
        h = mix(mix(h, c->sum[k]), c->sums[k]);
    return h;
}

uint64_t checksum_of(const void *bytes, size_t size)
{
    struct checksum c = {0};
    checksum_add(&c, bytes, size);
    return checksum_value(&c);
}
