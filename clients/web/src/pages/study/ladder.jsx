// A ladder: every parameter at its step sizes, and extrapolated to step size 0.
import { count, fixed, number, plural } from "../../format.js";

const Estimate = ({ of, error }) => <>{number(of, 4)}{error > 0 && <small class="dim"> ± {number(error, 2)}</small>}</>;
const Off = ({ of: { difference, difference_error: error, z } }) => <span class={Math.abs(z) > 2 ? "text-warn" : ""} title={`z = ${number(z, 2)}`}>{fixed(difference)}<small class="dim"> ± {fixed(error)}</small></span>;

function Factors({ study }) {
  return (
    <div class="card scroll-x">
      <table class="plain" aria-label="Jobs of the ladder">
        <thead><tr><th class="right">Factor</th><th>Job</th><th>State</th></tr></thead>
        <tbody>{study.jobs.map((job) => <tr key={job.id}><td class="right">{number(job.setting.factor, 3)}</td><td>{job.name === null ? <span class="dim">{job.reason}</span> : <a href={`#/jobs/${job.id}`}>{job.name}</a>}</td><td title={job.reason}>{job.state ?? "–"}</td></tr>)}</tbody>
      </table>
    </div>
  );
}

export function Ladder({ study, result }) {
  const { parameters, saved, factors } = result;
  return (
    <div class="stack">
      <Factors study={study} />
      {parameters.length > 0 && (
        <div class="card scroll-x">
          <p class="dim">{plural(saved, "parameter")}{parameters.length < saved && `, ${count(parameters.length)} of them shown`}, the worst first. Differences: what the step size of the first job adds to the mean (in sds) and to the sd (as a fraction).</p>
          <table class="plain" aria-label="Parameters">
            <thead>
              <tr><th rowSpan={2}>Parameter</th><th colSpan={factors.length + 2}>Mean</th><th colSpan={factors.length + 2}>Sd</th></tr>
              <tr>{["mean", "sd"].map((m) => [...factors.map((f) => <th key={m + f.factor} class="right">× {number(f.factor, 3)}</th>), <th key={`${m}0`} class="right">at 0</th>, <th key={`${m}d`} class="right">difference</th>])}</tr>
            </thead>
            <tbody>
              {parameters.map((p) => (
                <tr key={p.name}>
                  <th><code>{p.name}</code></th>
                  {["mean", "sd"].map((m) => [...p.factors.map((f) => <td key={m + f.factor} class="right"><Estimate of={f[m]} error={f[`mcse_${m}`]} /></td>),
                    <td key={`${m}0`} class="right"><Estimate of={p[m]?.extrapolated} error={p[m]?.error} /></td>, <td key={`${m}d`} class="right">{p[m] ? <Off of={p[m]} /> : "–"}</td>])}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
