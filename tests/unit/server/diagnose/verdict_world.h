/* Jobs to judge, and what must be said about them: shared by the tests of the verdict. */
#ifndef TESTS_UNIT_SERVER_DIAGNOSE_VERDICT_WORLD_H
#define TESTS_UNIT_SERVER_DIAGNOSE_VERDICT_WORLD_H

#include "server/base/json.h"
#include "server/diagnose/tolerance.h"
#include "server/diagnose/verdict.h"
#include "tests/support/store.h"

#include <inttypes.h>
#include <math.h>

extern struct store_test verdict_test;
extern char verdict_job[JOB_ID_SIZE]; /* the job that was judged last */

#define SEPSIS_MODEL \
    "\"model\":{\"name\":\"logistic\"},\"data\":{\"path\":\"a.csv\",\"response\":\"y\"},"
#define REST          "\"iterations\":20000,\"warmup\":1000,\"chains\":4,\"seed\":7}"
#define JOB(sampler)  "{" SEPSIS_MODEL "\"batch_size\":881,\"sampler\":{" sampler "}," REST
#define FULL(sampler) "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"sampler\":{" sampler "}," REST

static const char barker[] = JOB("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01");
static const char barker_full[] =
    FULL("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01");
static const char barker_all_rows[] =
    "{" SEPSIS_MODEL "\"batch_size\":88163,\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\","
    "\"step_size\":0.01}," REST;
static const char langevin[] = JOB("\"name\":\"sgld\",\"step_size\":0.01");
static const char corrected[] =
    JOB("\"name\":\"sgbd\",\"variant\":\"corrected\",\"step_size\":0.01");
static const char extreme[] = JOB("\"name\":\"sgld\",\"variant\":\"extreme\",\"step_size\":0.01");
static const char extreme_full[] =
    FULL("\"name\":\"sgld\",\"variant\":\"extreme\",\"step_size\":0.01");
static const char gaussian[] =
    FULL("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"noise\":\"gaussian\",\"step_size\":0.01");
static const char lattice[] = JOB("\"name\":\"sglrw\",\"step_size\":0.01");
static const char lattice_apart[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"init\":{\"kind\":\"prior\"},"
    "\"sampler\":{\"name\":\"sglrw\",\"step_size\":0.01}," REST;
static const char lattice_full[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"init\":{\"kind\":\"zero\"},"
    "\"sampler\":{\"name\":\"sglrw\",\"step_size\":0.01}," REST;
static const char lattice_auto[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"init\":{\"kind\":\"auto\"},"
    "\"precondition\":\"none\",\"gradient\":{\"estimator\":\"plain\"},"
    "\"sampler\":{\"name\":\"sglrw\",\"step_size\":0.01}," REST;
static const char cauchy[] =
    "{\"model\":{\"name\":\"noisy_normal\",\"noise\":\"cauchy\",\"noise_scale\":5},"
    "\"sampler\":{\"name\":\"sgld\",\"step_size\":0.01}," REST;
static const char cauchy_barker[] =
    "{\"model\":{\"name\":\"noisy_normal\",\"noise\":\"cauchy\",\"noise_scale\":5},"
    "\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01}," REST;
static const char exact[] = FULL("\"name\":\"barker_mh\"");
static const char toy[] = "{\"model\":{\"name\":\"noisy_normal\",\"noise_scale\":5},"
                          "\"sampler\":{\"name\":\"sgld\",\"step_size\":0.01}," REST;
static const char one_row[] =
    "{" SEPSIS_MODEL "\"batch_size\":1,\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\","
    "\"step_size\":0.01}," REST;
static const char decreasing[] =
    JOB("\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":{\"kind\":\"schedule\","
        "\"value\":0.01,\"t0\":1000,\"gamma\":1}");
static const char with_reference[] =
    "{" SEPSIS_MODEL "\"batch_size\":\"full\",\"reference\":\"stan\","
    "\"sampler\":{\"name\":\"sgbd\",\"variant\":\"vanilla\",\"step_size\":0.01}," REST;

static const struct summary_head good = {1.004, 2310.7, 1980.2, NAN, "theta[2]", 4, 1000};
static const struct summary_head slow = {1.08, 85.0, 60.0, NAN, "theta[1]", 4, 1000};
static const struct summary_head few = {NAN, NAN, NAN, NAN, "", 4, 0};

#define CHECKS(ksd, energy) "{\"ksd\":" ksd ",\"fssd\":null,\"energy\":" energy "}"
#define KSD(p)              "{\"value\":0.045,\"squared\":0.002,\"error\":0.001,\"p_value\":" p ",\"draws\":312}"
#define KSD_BEYOND \
    "{\"value\":0.1,\"squared\":0.01,\"error\":0.001,\"p_value\":0.001,\"draws\":312}"
#define ENERGY(ratio, z)                                                                    \
    "{\"mean_log_density\":-123.5,\"mcse\":0.1,\"sd\":1.5,\"draws\":300,"                   \
    "\"mode_log_density\":-121,\"expected\":-123,\"ratio\":" ratio ",\"ratio_error\":0.02," \
    "\"z\":" z "}"

/* Certificates of four parameters. */
#define CERTIFIED(mean, sd, form)                                     \
    "{\"ksd\":null,\"energy\":null,\"certificate\":{\"form\":\"" form \
    "\",\"draws\":400,\"parameters\":4,\"mean\":" mean ",\"sd\":" sd ",\"reason\":null}}"
#define CERTIFIED_PART(certified, parameter, open, worst, error, se, least)                        \
    "{\"certified\":" certified ",\"parameter\":\"" parameter "\",\"not_resolved\":" open          \
    ",\"first_not_resolved\":\"theta[1]\",\"worst\":{\"parameter\":\"" worst "\",\"error\":" error \
    ",\"se\":" se ",\"at_least\":" least "}}"
#define MEAN_FINE     CERTIFIED_PART("0.008", "theta[3]", "0", "theta[1]", "0.004", "0.001", "0.001")
#define SD_FINE       CERTIFIED_PART("0.007", "theta[3]", "0", "theta[1]", "0.003", "0.001", "0")
#define SD_OPEN       CERTIFIED_PART("0.007", "theta[3]", "2", "theta[1]", "0.003", "0.001", "0")
#define SD_VAGUE      CERTIFIED_PART("0.05", "theta[3]", "0", "theta[1]", "0.01", "0.02", "-0.04")
#define MEAN_OFF(off) CERTIFIED_PART("0.18", "theta[3]", "0", "theta[3]", off, "0.01", "0.12")
#define SD_OFF        CERTIFIED_PART("0.1", "theta[2]", "0", "theta[2]", "-0.08", "0.01", "0.05")

#define PLAN(sd_error, energy, mcse, ess)                                                          \
    "{\"state\":\"ready\",\"target_met\":false,\"target\":{\"sd_error\":0.02,\"mean_error\":0.02," \
    "\"ess\":" ess "},\"checks\":{\"sd_error\":" sd_error                                          \
    ",\"mean_error\":0.04,\"energy\":" energy ",\"energy_half\":0.89,\"energy_mcse\":" mcse "}}"

#define PLAN_MET                                                                                  \
    "{\"state\":\"ready\",\"target_met\":true,\"target\":{\"sd_error\":0.02,\"mean_error\":0.02," \
    "\"ess\":null},\"checks\":{\"sd_error\":0.01,\"mean_error\":0.01}}"

#define PLAN_MODES                                                                                \
    "{\"state\":\"ready\",\"target_met\":true,\"target\":{\"sd_error\":0.02,\"mean_error\":0.02," \
    "\"ess\":null},\"centre\":{\"searches\":8,\"modes\":2},\"checks\":{\"sd_error\":0.01,"        \
    "\"mean_error\":0.01}}"

#define RUNNING JOB_running

/* A job of d parameters theta[1..d], all alike but for the first. Zero means the usual. */
struct world {
    const char *request;
    size_t d, width;
    uint32_t chains;
    uint64_t iteration; /* of every chain */
    size_t draws;       /* stored, of every chain; after warm-up they are draws - 1000 / thin */
    uint64_t thin;
    double tau, sigma, beyond, variance; /* NaN variance: 0, a constant */
    double first_tau, first_variance;
    uint32_t diverged; /* chain */
    const char *checks;
    const char *plan; /* its document */
    double spread;    /* of the stored draws, which are a sweep over [-1, 1] times this */
};

struct situation {
    const char *name;
    struct world world;
    struct verdict_context context;
    const char *mixing, *bias; /* levels */
    const char *says[4];       /* in the sentence */
    const char * not ;         /* what must not be in it */
};

const char *verdict_text(const json_t *doc, const char *part, const char *key);
json_t *verdict_of(struct world w, struct verdict_context c);
json_t *verdict_evidence_of(const json_t *doc, const char *check);
double verdict_number(const json_t *doc, const char *check, const char *key);
void expect_situation(const struct situation *s);
void expect_near(double got, double want, const char *what);

#endif
