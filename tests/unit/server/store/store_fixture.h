/* The store that each test of this room has, in a folder of its own. */
#ifndef BARKER_TESTS_STORE_FIXTURE_H
#define BARKER_TESTS_STORE_FIXTURE_H

#include "tests/support/store.h"

extern struct store_test t;

/* Before and after a test, for TestSuite. */
void store_setup(void);
void store_teardown(void);

#endif
