/* Which program this is: two builds of one version may give other draws for the same seed, in their
 * last digits. */
#ifndef BARKER_SERVER_BASE_BUILD_H
#define BARKER_SERVER_BASE_BUILD_H

#define BARKERD_VERSION "0.2.0"

/* "barkerd 0.2.0, build afae3a9c78ca", from the linker's build id; without one, just the version.
 * For good. Thread-safe. */
const char *build_name(void);

#endif
