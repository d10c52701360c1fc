/* Identifies this build: two builds of one version may give draws that differ in their last
 * digits. */
#ifndef BARKER_SERVER_BASE_BUILD_H
#define BARKER_SERVER_BASE_BUILD_H

#define BARKERD_VERSION "0.5.0"

/* "barkerd 0.5.0, build afae3a9c78ca", from the linker's build id; without one, only the
 * version. The text is never freed. Thread-safe. */
const char *build_name(void);

#endif
