/* A server of http_app.h and clients that talk to it. */
#ifndef BARKER_TESTS_HTTP_FIXTURE_H
#define BARKER_TESTS_HTTP_FIXTURE_H

#include "server/http/http.h"

#include "tests/support/http_app.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <sys/resource.h>

static struct app app;

/* Without an idle timeout, which would close what a defect leaves open. */
static inline void start(struct http_config config)
{
    struct err_info info = {.message = ""};
    if (config.idle_ms == 0)
        config.idle_ms = 3600000;
    enum err err = app_start(&app, config, &info);
    cr_assert_eq(err, ERR_OK, "%s", info.message);
}

/* Everything has ended, and what was opened for it is closed. */
static inline void stop(void)
{
    cr_assert(http_stop(app.http, PATIENCE * 1000));
    cr_expect_eq(atomic_load(&app.live), 0);
    cr_expect_eq(atomic_load(&app.streams), 0);
    cr_expect_eq(app.done, app.admitted + app.unadmitted, "not every request ended once");
}

static inline struct answer get(const char *path)
{
    struct answer answer;
    cr_assert(fetch(&app, "GET", path, &answer), "no reply to %s", path);
    return answer;
}

#endif
