/* One store per test: every test runs in a process of its own. */
#include "tests/unit/server/store/store_fixture.h"

struct store_test t;

void store_setup(void)
{
    store_test_init(&t);
}

void store_teardown(void)
{
    store_test_release(&t);
}
