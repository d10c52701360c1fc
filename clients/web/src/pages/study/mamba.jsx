// mamba: the arms by round, with the Stein discrepancy and the variance check beside it.
import { useMemo } from "preact/hooks";
import { count, number, percent } from "../../format.js";
import { Plot } from "../../plot.jsx";
import { reachOf } from "../../plottrail.js";
import { roundsOf } from "./rounds.js";

const ONE = [{ axis: "y", at: 1, label: "1: right" }];

function Scores({ arms, measure, title, lines }) {
  const series = useMemo(() => roundsOf(arms, measure), [arms, measure]);
  const include = useMemo(() => [...reachOf(series, true), ...(lines ? [1] : [])], [series]);
  if (!series.length) return null;
  return <Plot title={title} note="bars: ± 2 standard errors" name={`mamba-${measure}`} height={280} series={series} xLabel="step size" yLabel={title} logX logY xPad={0.06} include={include} lines={lines} legend />;
}

const STATES = { waiting: ["", "waiting"], running: ["", "running"], out: ["", "out"], chosen: ["good", "chosen"] };

const Score = ({ value, error }) => (typeof value === "number" ? <>{number(value, 3)}{error > 0 && <small class="dim"> ± {number(error, 2)}</small>}</> : "–");

// Beyond two standard errors and a tenth from 1, the variances are wrong.
const offTone = ({ variance_check: v, variance_check_error: e }) => (typeof v === "number" && Math.abs(v - 1) > Math.max(0.1, 2 * (e ?? 0)) ? "text-warn" : "");

function Arms({ arms, rounds }) {
  return (
    <div class="card scroll-x">
      <table class="plain arms" aria-label="Arms by round">
        <thead>
          <tr><th rowSpan={2} class="right">Step size</th><th rowSpan={2}>State</th><th rowSpan={2} class="right">Iterations</th>{rounds.map(({ round, draws }) => <th key={round} colSpan={2} title={`${count(draws)} full-data gradients per arm`}>Round {round}</th>)}<th rowSpan={2}>Job</th></tr>
          <tr>{rounds.map(({ round }) => [<th key={`f${round}`} class="right" title="Finite set Stein discrepancy; smaller is better">FSSD</th>, <th key={`v${round}`} class="right" title="1 under the posterior, larger where variances are too large">Variance check</th>])}</tr>
        </thead>
        <tbody>
          {arms.map((arm) => {
            const [tone, words] = STATES[arm.state] ?? ["", arm.state];
            return (
              <tr key={arm.index}>
                <td class="right">{number(arm.step_size, 4)}</td><td title={arm.reason ?? ""}><span class={`level ${tone}`}>{words}</span></td><td class="right">{count(arm.iterations)}</td>
                {rounds.map(({ round }) => {
                  const score = arm.scores.find((s) => s.round === round);
                  if (!score) return [<td key={`f${round}`} class="right dim">–</td>, <td key={`v${round}`} class="right dim">–</td>];
                  return [
                    <td key={`f${round}`} class="right" title={score.reason ?? ""}>{score.kept ? <b><Score value={score.fssd} error={score.fssd_error} /></b> : <Score value={score.fssd} error={score.fssd_error} />}</td>,
                    <td key={`v${round}`} class={`right ${offTone(score)}`} title={score.worst ? `furthest from 1: ${score.worst}, ${number(score.variance_check_worst, 3)}` : ""}><Score value={score.variance_check} error={score.variance_check_error} /></td>,
                  ];
                })}
                <td>{arm.job ? <a href={`#/jobs/${arm.job}`}>open</a> : "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

export function Mamba({ result }) {
  const { arms, rounds, budget, chosen } = result;
  return (
    <div class="stack">
      <dl class="facts-grid card">
        <div><dt>Chosen step size</dt><dd>{chosen ? <>{number(chosen.step_size, 4)}{chosen.edge && <span class="text-warn"> (edge of the range)</span>}</> : "–"}</dd></div>
        <div><dt>Rounds</dt><dd>{rounds.map((r) => `${r.arms} → ${r.kept}`).join(", ")}</dd></div>
        <div title="In iterations of one chain"><dt>Budget spent</dt><dd>{count(budget.spent)} of {count(budget.total)}</dd></div>
        <div title={`One full-data gradient costs ${number(budget.gradient_cost, 3)} iterations`}><dt>Of it for full-data gradients</dt><dd>{percent(budget.spent > 0 ? budget.gradients / budget.spent : null)}</dd></div>
      </dl>
      <div class="plots"><Scores arms={arms} measure="fssd" title="Stein discrepancy (FSSD)" /><Scores arms={arms} measure="variance_check" title="variance check" lines={ONE} /></div>
      <p class="dim">An arm goes on by its Stein discrepancy alone (bold). It says little about variances: the check beside it is 1 for draws from the posterior, and larger where variances are too large.</p>
      <Arms arms={arms} rounds={rounds} />
    </div>
  );
}
