/* Successive halving under a budget: how many iterations every arm runs in a round, and at how many of
 * its draws full-data gradients are taken. Pure. */
#ifndef BARKER_SERVER_STUDY_HALVING_H
#define BARKER_SERVER_STUDY_HALVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HALVING_ROUNDS_MAX 16
#define HALVING_DRAWS      10  /* least number of draws that a score is made of */
#define HALVING_DRAWS_MAX  500 /* more are hardly independent */

struct halving_round {
    size_t arms, kept;
    uint64_t iterations; /* of every arm in this round */
    size_t draws;        /* with a gradient, of every arm: of the second half of the round */
};

struct halving {
    size_t round_count;
    struct halving_round rounds[HALVING_ROUNDS_MAX];
    uint64_t thin; /* of the arms' jobs: so few draws are stored as are needed */
};

/* floor(log(arms) / log(factor)) rounds (at least one), each of which gets the same part of the budget; one
 * arm in `factor` goes on, and one is left. A gradient costs as much as `cost` iterations; gradients
 * get half of a round at most, and no more than `most_draws` draws. False: the budget is too small;
 * *least is one that is not. */
bool halving_plan(struct halving *out, size_t arms, size_t factor, double budget, double cost,
                  size_t most_draws, double *least);

#endif
