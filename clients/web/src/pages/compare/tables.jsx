// Tables: one column per job, then per parameter.
import { count, duration, number, offBy } from "../../format.js";
import { EssText, RhatText } from "../../ui/numbers.jsx";

const spread = (job, key) => job.reference?.[key];

// [name, title, value of a job, whether it needs a reference]
const FIGURES = [
  ["Sampler", "with batch size n", (j) => <>{j.sampler}, n = {typeof j.batch_size === "number" ? count(j.batch_size) : String(j.batch_size ?? "–")}</>],
  ["Draws", "after warm-up, all chains", (j) => count(j.draws)],
  ["Largest R-hat", "over parameters", (j) => <RhatText value={j.max_rhat} />],
  ["Smallest ESS", "bulk, over parameters", (j) => <EssText value={j.min_ess_bulk} />],
  ["ESS per second", "of CPU time, for the slowest parameter", (j) => number(j.ess_per_second, 3)],
  ["ESS per gradient", "for the slowest parameter", (j) => number(j.ess_per_gradient, 3)],
  ["CPU time", "including warm-up", (j) => duration(j.cpu_seconds)],
  ["Time to the target error", "CPU time until the posterior means reach the target error", (j) => <Cost cost={j.cost} />],
  ["Bias of means, mean", "over parameters, in sds of the reference", (j) => number(spread(j, "bias_mean")?.mean, 2), true],
  ["Bias of means, largest", "over parameters, in sds of the reference", (j) => number(spread(j, "bias_mean")?.max, 2), true],
  ["Bias of variances, median", "of |variance / reference − 1| over parameters", (j) => offBy(spread(j, "bias_variance_ratio")?.median), true],
  ["Bias of variances, largest", "of |variance / reference − 1| over parameters", (j) => offBy(spread(j, "bias_variance_ratio")?.max), true],
  ["Wasserstein distance, median", "over parameters, in sds of the reference", (j) => number(spread(j, "wasserstein")?.median, 2), true],
  ["Energy", "difference from the reference’s mean log density, in standard errors", (j) => <Energy energy={j.energy} />, true],
];

function Cost({ cost }) {
  if (!cost) return "–";
  return <span title={cost.reason}>{typeof cost.seconds === "number" ? duration(cost.seconds) : "–"}</span>;
}

function Energy({ energy }) {
  return <span title={energy?.reason}>{typeof energy?.z === "number" ? `z ${number(energy.z, 2)}` : "–"}</span>;
}

const Job = ({ data, i, link }) => {
  const { id, name } = data.jobs[i];
  return <><i class={`swatch c${(i % 8) + 1}`} aria-hidden="true" /> {link ? <a href={`#/jobs/${id}`}>{name || id}</a> : name || id}</>;
};

export function CompareTables({ data }) {
  const figures = FIGURES.filter((f) => !f[3] || data.reference);
  return (
    <div class="stack">
      <section class="card scroll-x" aria-label="Figures of each job" tabIndex={0}>
        <table class="plain figures">
          <thead><tr><th scope="col" />{data.jobs.map((j, i) => <th key={j.id} scope="col" class="right"><Job data={data} i={i} link /></th>)}</tr></thead>
          <tbody>{figures.map(([name, title, value]) => <tr key={name}><th scope="row" title={title}>{name}</th>{data.jobs.map((j) => <td key={j.id} class="right">{value(j)}</td>)}</tr>)}</tbody>
        </table>
      </section>
      <Parameters data={data} />
    </div>
  );
}

function Parameters({ data }) {
  if (data.parameters.length === 0) return <p class="state">The jobs have no common parameters.</p>;
  return (
    <section class="card scroll-x" aria-label="Parameter by parameter" tabIndex={0}>
      <table class="plain grouped">
        <thead><tr><th scope="col">Parameter</th><th scope="col">Job</th>{["Mean", "sd", "5 %", "50 %", "95 %", "R-hat", "ESS", "ESS/s"].map((n) => <th key={n} scope="col" class="right">{n}</th>)}
          {data.reference && <><th scope="col" class="right" title="in sds of the reference, ± Monte-Carlo error">Bias of mean</th><th scope="col" class="right" title="|variance / reference − 1|; above 100% as a multiple of the reference">Bias of variance</th><th scope="col" class="right" title="in sds of the reference; in brackets: the value for exact draws">Wasserstein</th></>}</tr></thead>
        <tbody>
          {data.parameters.flatMap((p) => p.jobs.map((row, i) => (
            <tr key={`${p.name} ${data.jobs[i].id}`} class={i === 0 ? "first" : ""}>
              {i === 0 && <th scope="rowgroup" rowSpan={p.jobs.length}><code>{p.name}</code></th>}
              <td class="clip" title={data.jobs[i].name}><Job data={data} i={i} /></td>
              <td class="right" title={row.reason}>{number(row.mean)}</td><td class="right">{number(row.sd)}</td><td class="right">{number(row.q5)}</td><td class="right">{number(row.q50)}</td><td class="right">{number(row.q95)}</td>
              <td class="right"><RhatText value={row.rhat} /></td><td class="right"><EssText value={row.ess_bulk} /></td><td class="right">{number(row.ess_per_second, 3)}</td>
              {data.reference && <ReferenceCells r={row.reference} />}
            </tr>
          )))}
        </tbody>
      </table>
    </section>
  );
}

function ReferenceCells({ r }) {
  if (!r) return <td class="right dim" colSpan={3}>not in the reference</td>;
  return (
    <>
      <td class="right">{number(r.bias_mean, 2)}{typeof r.mcse_bias_mean === "number" && <span class="dim"> ± {number(r.mcse_bias_mean, 1)}</span>}</td>
      <td class="right">{offBy(r.bias_variance_ratio)}</td>
      <td class="right" title={r.wasserstein_reason ?? r.reason}>{number(r.wasserstein, 2)}{typeof r.wasserstein_noise === "number" && <span class="dim"> ({number(r.wasserstein_noise, 1)})</span>}</td>
    </>
  );
}
