// One series per round over the step sizes of its arms.
export function roundsOf(arms, measure) {
  const rounds = [...new Set(arms.flatMap((arm) => arm.scores.map((s) => s.round)))].sort((a, b) => a - b);
  return rounds.map((round) => {
    const points = arms.map((arm) => ({ arm, score: arm.scores.find((s) => s.round === round) })).filter(({ score }) => score?.[measure] > 0)
      .sort((a, b) => a.arm.step_size - b.arm.step_size);
    return {
      label: `round ${round}`, color: round - 1, x: points.map((p) => p.arm.step_size), y: points.map((p) => p.score[measure]),
      trail: { xError: points.map(() => null), yError: points.map((p) => p.score[`${measure}_error`]) },
    };
  }).filter((s) => s.x.length);
}
