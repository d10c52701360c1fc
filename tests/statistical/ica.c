/* Independent components of the real data: the sources that chains find have the scale that their
 * model says. Skipped with a message where the data are not there. */
#include "tests/statistical/shared.h"
#include "tests/support/stat.h"
#include "tests/support/toy.h"

#include <stdio.h>

enum { K = 10, SEEDS = 8 };

/* Mean of y tanh(y/2) over rows and components, y = w_k x. */
static double scale_at(const struct dataset *data, const double *W)
{
    double sum = 0;

    for (size_t i = 0; i < data->N; i++)
        for (size_t k = 0; k < K; k++) {
            double y = 0;
            for (size_t j = 0; j < K; j++)
                y += W[k * K + j] * ((const double *)data->x)[i * data->stride + j];
            sum += y * tanh(y / 2);
        }
    return sum / (double)(K * data->N);
}

static double scale_of_chain(const struct model *model, const struct dataset *data, uint64_t seed)
{
    struct chain_config config = toy_config(model, "sgld", "corrected", 0.00705);
    double mean[K * K], variance[K * K];

    config.seed = seed;
    config.batch_size = 100;
    config.warmup = config.iterations = 20000;
    config.thin = 20000;
    config.start.kind = model->type->start;
    struct chain *chain = toy_chain(&config);
    toy_run(chain, 40000, NULL, NULL);
    chain_moments(chain, mean, variance);
    chain_free(chain);
    return scale_at(data, mean);
}

/* Where the gradient along the scale of a component vanishes, that mean is 1. */
Test(ica, sources_have_the_scale_of_their_model)
{
    double sum = 0, square = 0;

    if (!shared_has("meg_train.csv"))
        return;
    struct dataset train = shared_rows("meg_train.csv");
    struct model *model = toy_registered("ica", NULL, &train, NULL);
    cr_assert_eq(model->d, K * K);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double scale = scale_of_chain(model, &train, seed);
        sum += scale / SEEDS;
        square += scale * scale / SEEDS;
    }
    double error = sqrt((square - sum * sum) / (SEEDS - 1));
    printf("ica: mean of y tanh(y/2) is %.4f (+- %.4f)\n", sum, error);
    cr_expect_lt(fabs(sum - 1), 0.005, "%.4f (+- %.4f)", sum, error);
    model_free(model);
    shared_free(&train);
}
