/* Ranks of draws and their normal scores: the part of the mixing measures that depends on nothing
 * but the order of the draws. No allocation except in the constructor. */
#ifndef BARKER_CORE_DIAGNOSTICS_RANK_H
#define BARKER_CORE_DIAGNOSTICS_RANK_H

#include <stddef.h>

/* A draw and the place its score goes to; MIXING_RANK_NOWHERE for a draw that is not scored. */
#define MIXING_RANK_NOWHERE ((size_t)-1)
struct mixing_ranked {
    double value;
    size_t place;
};

/* Sorts by value, ascending; equal values keep their order. No value may be NaN. The sorted draws
 * are in `draws` or in `spare` (of the same size), whichever is returned. */
struct mixing_ranked *mixing_rank_sort(struct mixing_ranked *draws, struct mixing_ranked *spare,
                                       size_t count);

/* The sorted draws again, as distances from `centre` (finite), sorted. Linear time. */
void mixing_rank_fold(const struct mixing_ranked *sorted, size_t count, double centre,
                      struct mixing_ranked *folded);

/* Normal scores by rank, kept for the last sample size: many parameters share it. */
struct mixing_scores {
    size_t count;  /* the sample size the table holds */
    double *table; /* Phi^-1 of rank 1 .. count */
};

/* Room for samples of up to `max_count`. Returns 0, or -1 when memory is out. */
int mixing_scores_init(struct mixing_scores *scores, size_t max_count);
void mixing_scores_release(struct mixing_scores *scores);

/* Writes z[place] = Phi^-1((r - 3/8) / (scored + 1/4)) for each of the `scored` draws that have a
 * place, r their rank among those, averaged over equal values. */
void mixing_scores_fill(struct mixing_scores *scores, const struct mixing_ranked *sorted,
                        size_t count, size_t scored, double *z);

#endif
