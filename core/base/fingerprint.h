/* A 64-bit hash of bytes, to recognise a configuration and to detect damage. Not cryptographic. */
#ifndef BARKER_CORE_BASE_FINGERPRINT_H
#define BARKER_CORE_BASE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t fingerprint_word(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9fb21c651e98df25ULL;
    return h ^ (h >> 32);
}

static inline uint64_t fingerprint_bytes(uint64_t h, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = fingerprint_word(h, word);
    }
    uint64_t rest = 0;
    memcpy(&rest, p, size);
    return fingerprint_word(fingerprint_word(h, rest), size);
}

#endif
