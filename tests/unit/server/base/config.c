/* Settings: defaults, ranges, files, and where the daemon may listen. */
#include "server/base/config.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { kind_text, kind_number, kind_flag };

/* The same list that the module is made from. */
static const struct {
    const char *name;
    enum kind kind;
    int64_t lo, hi;
} all[] = {
#define X(kind, name, fallback, lo, hi, limit, help) {#name, kind_##kind, lo, hi},
    CONFIG_LIST(X)
#undef X
};
#define ALL (sizeof all / sizeof all[0])

static struct config config;

static void defaults(void)
{
    struct err_info info = {0};
    cr_assert_eq(config_init(&config, &info), ERR_OK, "%s", info.message);
}

static void release(void)
{
    config_release(&config);
}

TestSuite(config, .init = defaults, .fini = release);

static enum err set(const char *name, const char *value)
{
    struct err_info info = {0};
    return config_set(&config, name, value, &info);
}

static enum err set_number(const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return set(name, text);
}

Test(config, defaults_are_those_of_the_table)
{
    cr_expect_str_eq(config.listen, "127.0.0.1:8080");
    cr_expect_str_eq(config.state, "");
    cr_expect_str_eq(config.tls_cert, "");
    cr_expect_eq(config.workers, 0);
    cr_expect_eq(config.slice_ms, 1000);
    cr_expect_eq(config.behind_proxy, false);
    cr_expect_eq(config.trash_hours, 24);
    cr_expect_eq(config.max_iterations, 1000000000);
}

Test(config, numbers_are_taken_from_their_lowest_to_their_highest_value)
{
    for (size_t i = 0; i < ALL; i++) {
        if (all[i].kind != kind_number)
            continue;
        cr_expect_eq(set_number(all[i].name, all[i].lo), ERR_OK, "%s", all[i].name);
        cr_expect_eq(set_number(all[i].name, all[i].hi), ERR_OK, "%s", all[i].name);
        cr_expect_eq(set_number(all[i].name, all[i].lo - 1), ERR_INVALID, "%s", all[i].name);
        cr_expect_eq(set_number(all[i].name, all[i].hi + 1), ERR_INVALID, "%s", all[i].name);
    }
    cr_expect_eq(config.workers, 1024);
    cr_expect_eq(config.slice_ms, 60000);
}

Test(config, what_is_not_a_whole_number_is_refused_and_changes_nothing)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "1x",
                                      "1.5",
                                      "1e3",
                                      "0x10",
                                      "9999999999999999999999",
                                      "-9999999999999999999999",
                                      "true",
                                      "12 3",
                                      "--5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(set("slice_ms", bad[i]), ERR_INVALID, "\"%s\"", bad[i]);
    cr_expect_eq(config.slice_ms, 1000);
}

Test(config, messages_name_the_setting_the_value_and_what_is_allowed)
{
    static const struct {
        const char *name, *value, *says[3];
    } cases[] = {
        {"slice_ms", "7", {"slice_ms", "\"7\"", "10 to 60000"}},
        {"slice-ms", "soon", {"slice_ms", "\"soon\"", "10 to 60000"}},
        {"behind_proxy", "yes", {"behind_proxy", "\"yes\"", "true or false"}},
        {"colour", "red", {"\"colour\"", "no setting", "--help"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err_info info = {0};
        cr_expect_eq(config_set(&config, cases[i].name, cases[i].value, &info), ERR_INVALID);
        for (size_t k = 0; k < 3; k++)
            cr_expect_not_null(strstr(info.message, cases[i].says[k]), "%s", info.message);
    }
}

Test(config, flags_are_true_or_false_and_nothing_else)
{
    cr_expect_eq(set("behind_proxy", "true"), ERR_OK);
    cr_expect(config.behind_proxy);
    cr_expect_eq(set("behind_proxy", "false"), ERR_OK);
    cr_expect_not(config.behind_proxy);
    static const char *const bad[] = {"", "1", "0", "yes", "True", "true "};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_eq(set("behind_proxy", bad[i]), ERR_INVALID, "\"%s\"", bad[i]);
}

Test(config, names_may_have_hyphens_but_must_be_whole)
{
    cr_expect_eq(set("tls-cert", "a.pem"), ERR_OK);
    cr_expect_str_eq(config.tls_cert, "a.pem");
    cr_expect_eq(set("max-iterations", "7"), ERR_OK);
    cr_expect_eq(config.max_iterations, 7);
    static const char *const unknown[] = {"",         "tls", "tls_cert_", "tls_certs",
                                          "TLS_CERT", "-",   "_"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        cr_expect_eq(set(unknown[i], "x"), ERR_INVALID, "\"%s\"", unknown[i]);
}

Test(config, the_last_value_wins)
{
    cr_expect_eq(set("listen", "127.0.0.1:1"), ERR_OK);
    cr_expect_eq(set("listen", "127.0.0.1:2"), ERR_OK);
    cr_expect_str_eq(config.listen, "127.0.0.1:2");
}

Test(config, help_lists_every_setting)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    config_help(out);
    fclose(out);
    for (size_t i = 0; i < ALL; i++)
        cr_expect_not_null(strstr(text, all[i].name), "%s", all[i].name);
    cr_expect_not_null(strstr(text, "(1000)"), "%s", text);
    free(text);
}

/* A limit is the setting's number, MiB in bytes. */
Test(config, limits_are_those_of_the_table)
{
    set("user_downloads", "3");
    set("upload_mb", "7");
    json_t *limits = config_limits(&config);
    cr_expect_eq(json_integer_value(json_object_get(limits, "downloads")), 3);
    cr_expect_eq(json_integer_value(json_object_get(limits, "upload_bytes")), 7 << 20);
    size_t count = 0;
#define X(kind, name, fallback, lo, hi, limit, help) count += (limit)[0] != '\0';
    CONFIG_LIST(X)
#undef X
    cr_expect_eq(json_object_size(limits), count);
    json_decref(limits);
}

Test(config, the_environment_is_read_by_the_same_table)
{
    struct err_info info;
    setenv("BARKERD_USER_DOWNLOADS", "5", 1);
    cr_expect_eq(config_environment(&config, &info), ERR_OK);
    cr_expect_eq(config.user_downloads, 5);
    setenv("BARKERD_USER_DOWNLOADS", "many", 1);
    cr_expect_eq(config_environment(&config, &info), ERR_INVALID);
    cr_expect_not_null(strstr(info.message, "user_downloads"), "%s", info.message);
}

/* ---- files ---- */

static enum err read_text(const char *text, struct err_info *info)
{
    char path[] = "/tmp/barker-config-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    enum err code = config_file(&config, path, info);
    if (code != ERR_OK)
        cr_expect_not_null(strstr(info->message, path), "the file is not named: %s", info->message);
    unlink(path);
    return code;
}

Test(config, a_file_sets_what_it_names)
{
    struct err_info info = {0};
    enum err code = read_text("# the lab's server\n"
                              "\n"
                              "   \t\n"
                              "listen = 10.0.0.7:8443   # all of the lab\n"
                              "tls_cert=/etc/barkerd/cert.pem\n"
                              "\ttls-key\t=\t\"/etc/barkerd/key.pem\"\r\n"
                              "hosts = \"a.example, b.example\"\n"
                              "behind_proxy = true\n"
                              "data =\n"
                              "workers = 3",
                              &info);
    cr_assert_eq(code, ERR_OK, "%s", info.message);
    cr_expect_str_eq(config.listen, "10.0.0.7:8443");
    cr_expect_str_eq(config.tls_cert, "/etc/barkerd/cert.pem");
    cr_expect_str_eq(config.tls_key, "/etc/barkerd/key.pem");
    cr_expect_str_eq(config.hosts, "a.example, b.example");
    cr_expect_str_eq(config.data, "");
    cr_expect(config.behind_proxy);
    cr_expect_eq(config.workers, 3);
    cr_expect_eq(config.slice_ms, 1000, "what the file does not name stays");
}

Test(config, an_empty_file_sets_nothing)
{
    struct err_info info = {0};
    cr_expect_eq(read_text("", &info), ERR_OK, "%s", info.message);
    cr_expect_eq(read_text("# nothing\n", &info), ERR_OK, "%s", info.message);
    cr_expect_str_eq(config.listen, "127.0.0.1:8080");
}

Test(config, mistakes_in_a_file_are_named_with_their_line)
{
    static const struct {
        const char *text;
        enum err code;
        const char *says;
    } cases[] = {
        {"workers = 2\n\nworkers = many\n", ERR_INVALID, "line 3: workers: \"many\""},
        {"# one\nverbosity = 2\n", ERR_INVALID, "line 2: there is no setting \"verbosity\""},
        {"workers 2\n", ERR_MALFORMED, "line 1: \"workers 2\""},
        {"workers = 2\n= 3\n", ERR_INVALID, "line 2"},
        {"slice_ms = 5\nworkers = many\n", ERR_INVALID, "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err_info info = {0};
        cr_expect_eq(read_text(cases[i].text, &info), cases[i].code, "%s", cases[i].text);
        cr_expect_eq(info.code, cases[i].code);
        cr_expect_not_null(strstr(info.message, cases[i].says), "%s", info.message);
    }
}

Test(config, a_comment_sign_inside_quotes_belongs_to_the_value)
{
    struct err_info info = {0};
    cr_assert_eq(read_text("data = \"/srv/lab #3/data\" # the third lab\n", &info), ERR_OK, "%s",
                 info.message);
    cr_expect_str_eq(config.data, "/srv/lab #3/data");
}

Test(config, a_file_that_is_not_there_is_an_error)
{
    struct err_info info = {0};
    cr_expect_eq(config_file(&config, "/nowhere/barkerd.conf", &info), ERR_IO);
    cr_expect_not_null(strstr(info.message, "/nowhere/barkerd.conf"), "%s", info.message);
}

/* ---- what follows from other settings ---- */

struct finished {
    enum err code;
    struct err_info info;
    char address[64];
    uint16_t port;
    bool loopback;
};

static struct finished finish(void)
{
    struct finished f = {.port = 1};
    f.code = config_finish(&config, f.address, &f.port, &f.loopback, &f.info);
    return f;
}

static struct finished finish_at(const char *listen)
{
    setenv("HOME", "/home/someone", 1);
    cr_assert_eq(set("listen", listen), ERR_OK);
    return finish();
}

Test(config, state_and_data_have_their_place)
{
    setenv("HOME", "/home/ada", 1);
    unsetenv("XDG_STATE_HOME");
    cr_assert_eq(finish().code, ERR_OK);
    cr_expect_str_eq(config.state, "/home/ada/.local/state/barkerd");
    cr_expect_str_eq(config.data, "/home/ada/.local/state/barkerd/data");
}

Test(config, the_state_home_of_the_desktop_comes_before_the_home_folder)
{
    setenv("HOME", "/home/ada", 1);
    setenv("XDG_STATE_HOME", "/var/ada", 1);
    cr_assert_eq(finish().code, ERR_OK);
    cr_expect_str_eq(config.state, "/var/ada/barkerd");
}

Test(config, relative_homes_are_not_believed)
{
    setenv("HOME", "ada", 1);
    setenv("XDG_STATE_HOME", "state", 1);
    struct finished f = finish();
    cr_expect_eq(f.code, ERR_INVALID);
    cr_expect_not_null(strstr(f.info.message, "--state"), "%s", f.info.message);
}

Test(config, given_folders_are_left_alone)
{
    setenv("HOME", "/home/ada", 1);
    set("state", "/srv/state");
    set("data", "/srv/data");
    cr_assert_eq(finish().code, ERR_OK);
    cr_expect_str_eq(config.state, "/srv/state");
    cr_expect_str_eq(config.data, "/srv/data");
}

Test(config, no_workers_means_one_per_core)
{
    cr_assert_eq(finish_at("127.0.0.1:0").code, ERR_OK);
    cr_expect_eq(config.workers, sysconf(_SC_NPROCESSORS_ONLN));
    set("workers", "3");
    cr_assert_eq(finish().code, ERR_OK);
    cr_expect_eq(config.workers, 3);
}

Test(config, loopback_addresses_need_no_tls)
{
    static const struct {
        const char *listen, *address;
        uint16_t port;
    } cases[] = {
        {"127.0.0.1:8080", "127.0.0.1", 8080},
        {"127.0.0.1:0", "127.0.0.1", 0},
        {"127.8.9.1:65535", "127.8.9.1", 65535},
        {"localhost:80", "127.0.0.1", 80},
        {"[::1]:8080", "::1", 8080},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct finished f = finish_at(cases[i].listen);
        cr_expect_eq(f.code, ERR_OK, "%s: %s", cases[i].listen, f.info.message);
        cr_expect_str_eq(f.address, cases[i].address);
        cr_expect_eq(f.port, cases[i].port);
        cr_expect(f.loopback);
    }
}

static const char *const beyond[] = {
    "0.0.0.0:8080", "10.0.0.7:8443",     "[::]:8080",         "192.168.1.2:80",
    "128.0.0.1:80", "[2001:db8::1]:443", "126.255.255.255:1", "[::ffff:10.0.0.7]:8080",
};
#define BEYOND (sizeof beyond / sizeof beyond[0])

Test(config, beyond_loopback_is_refused_in_the_clear)
{
    for (size_t i = 0; i < BEYOND; i++) {
        struct finished f = finish_at(beyond[i]);
        cr_expect_eq(f.code, ERR_INVALID, "%s", beyond[i]);
        cr_expect_not_null(strstr(f.info.message, "tls_cert"), "%s", f.info.message);
        cr_expect_not_null(strstr(f.info.message, "behind_proxy"), "%s", f.info.message);
    }
}

Test(config, beyond_loopback_is_allowed_with_tls_or_behind_a_proxy)
{
    for (size_t i = 0; i < BEYOND; i++) {
        set("tls_cert", "cert.pem");
        set("tls_key", "key.pem");
        struct finished f = finish_at(beyond[i]);
        cr_expect_eq(f.code, ERR_OK, "%s: %s", beyond[i], f.info.message);
        cr_expect_not(f.loopback);
        set("tls_cert", "");
        set("tls_key", "");
        set("behind_proxy", "true");
        cr_expect_eq(finish_at(beyond[i]).code, ERR_OK, "%s", beyond[i]);
        set("behind_proxy", "false");
    }
}

Test(config, half_of_tls_is_refused_everywhere)
{
    static const char *const halves[] = {"tls_cert", "tls_key"};
    for (size_t i = 0; i < 2; i++) {
        set(halves[i], "some.pem");
        struct finished f = finish_at("127.0.0.1:8080");
        cr_expect_eq(f.code, ERR_INVALID);
        cr_expect_not_null(strstr(f.info.message, "both"), "%s", f.info.message);
        set(halves[i], "");
    }
}

Test(config, what_is_not_an_address_is_refused)
{
    static const char *const bad[] = {
        "",
        "8080",
        ":8080",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:80x",
        "127.0.0.1:-1",
        "127.0.0.1:65536",
        "256.0.0.1:80",
        "127.0.0.1:99999999999999999999",
        "example.org:80",
        "[::1]",
        "[::1:80",
        "[]:80",
        "127.1:80",
        "0x7f.0.0.1:80",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:"
        "80",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct finished f = finish_at(bad[i]);
        cr_expect_eq(f.code, ERR_INVALID, "\"%s\"", bad[i]);
        cr_expect_not_null(strstr(f.info.message, "listen: "), "%s", f.info.message);
    }
}

Test(config, memory_is_shared_out_by_the_size_of_the_machine)
{
    static const struct {
        uint64_t machine_mb;
        int64_t data_mb, chain_mb, request_mb;
    } cases[] = {{128, 64, 64, 64}, {4096, 1024, 1024, 256}, {262144, 65536, 65536, 16384}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.data_memory_mb = config.chain_memory_mb = config.request_memory_mb = 0;
        config_share_memory(&config, cases[i].machine_mb << 20);
        cr_expect_eq(config.data_memory_mb, cases[i].data_mb);
        cr_expect_eq(config.chain_memory_mb, cases[i].chain_mb);
        cr_expect_eq(config.request_memory_mb, cases[i].request_mb);
    }
    config.chain_memory_mb = 7;
    config_share_memory(&config, 1);
    cr_expect_eq(config.chain_memory_mb, 7, "what is set stays");
}
