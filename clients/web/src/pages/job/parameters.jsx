// The table of all saved parameters, worst first.
import { useMemo, useRef } from "preact/hooks";
import { count, number, plural } from "../../format.js";
import { usePaged } from "../../paged.js";
import { joinNames, splitNames } from "../../params.js";
import { route, setQuery, useQuery } from "../../router.js";
import { useStore } from "../../store.js";
import { EssText, RhatText } from "../../ui/numbers.jsx";
import { Empty, Failure, Loading } from "../../ui/states.jsx";
import { VirtualTable } from "../../ui/table.jsx";

const num = (key, label, title, digits = 4) => ({ key, label, title, width: "minmax(5.2rem, 1fr)", align: "right", hint: (r) => (r[key] === null ? r.reason : String(r[key])), render: (r) => number(r[key], digits) });

const BIAS = [
  { key: "bm", label: "Bias mean", title: "|mean − reference| / reference sd", width: "5.2rem", align: "right", render: (r) => number(r.reference?.bias_mean, 2) },
  { key: "bv", label: "Bias var.", title: "|variance / reference − 1|", width: "5.2rem", align: "right", render: (r) => number(r.reference?.bias_variance_ratio, 2) },
];

const CERTIFIED = [
  { key: "cm", label: "Mean off", title: "certified: the mean is within so many sds of the posterior's, Monte-Carlo error included", width: "5rem", align: "right", hint: (r) => certifiedHint(r.certified_mean_error), render: (r) => number(r.certified_mean_error, 2) },
  { key: "cs", label: "SD off", title: "certified: the sd is within this part of the posterior's, Monte-Carlo error included", width: "4.6rem", align: "right", hint: (r) => certifiedHint(r.certified_sd_error), render: (r) => number(r.certified_sd_error, 2) },
];
const certifiedHint = (value) => (typeof value === "number" ? String(value) : "not certified: see the checks on the overview");

function columnsOf(reference, chosen, flip) {
  return [
    { key: "pick", label: "", width: "1.75rem", render: (r) => <input type="checkbox" checked={chosen.has(r.name)} aria-label={`Plot ${r.name}`} title="Select for plots" onChange={() => flip(r.name)} /> },
    { key: "name", label: "Parameter", width: "minmax(7rem, 1.4fr)", render: (r) => <code>{r.name}</code> },
    { key: "rhat", label: "R-hat", width: "4.6rem", align: "right", hint: (r) => r.reason, render: (r) => RhatText({ value: r.rhat }) },
    { key: "bulk", label: "ESS bulk", width: "5rem", align: "right", render: (r) => EssText({ value: r.ess_bulk }) },
    { key: "tail", label: "ESS tail", width: "5rem", align: "right", render: (r) => EssText({ value: r.ess_tail }) },
    num("mean", "Mean", "of the draws after warm-up"),
    num("mcse_mean", "MCSE", "Monte-Carlo standard error of the mean", 2),
    num("sd", "SD", "posterior standard deviation"),
    ...CERTIFIED,
    num("q5", "5 %", "quantile"), num("q50", "50 %", "median"), num("q95", "95 %", "quantile"),
    ...(reference ? BIAS : []),
  ];
}

export function Parameters({ job }) {
  const [order, setOrder] = useQuery("order", "worst");
  const reference = useStore(route, (r) => r.query.reference) ?? job.request?.reference ?? "";
  const params = useStore(route, (r) => r.query.params) ?? "";
  const chosen = useMemo(() => new Set(splitNames(params)), [params]);
  const list = usePaged(`/v1/jobs/${job.id}/summary`, { order, reference }, { items: (d) => d.parameters, total: (d) => d.saved, job: job.id, atLeast: 15000 });
  const flip = (name) => {
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    setQuery({ params: joinNames([...next]) });
  };
  const latest = useRef(flip);
  latest.current = flip;
  const columns = useMemo(() => columnsOf(reference, chosen, (name) => latest.current(name)), [reference, chosen]);
  if (list.total === null) return list.error ? <Failure error={list.error} retry={list.reload} /> : <Loading what="parameters" />;
  const head = list.first;
  return (
    <div class="stack">
      <div class="bar-top">
        <span>{plural(list.total, "parameter")}{head && head.parameters_total > list.total && <> of {count(head.parameters_total)} are saved</>}, {count(head?.draws)} draws
          {head?.ranked && <span class="dim">; {count(head.ranked)} of them, evenly spaced, are sorted by R-hat and listed first</span>}
          {head?.draws_stored ? <span class="dim"> (of {count(head.draws_stored)} stored)</span> : null}</span>
        <span class="spring" />
        {chosen.size > 0 && <><button type="button" class="button primary" onClick={() => setQuery({ tab: "traces" }, {})}>Plot {chosen.size}</button><button type="button" class="button quiet" onClick={() => setQuery({ params: "" })}>Clear</button></>}
        <select aria-label="Order" value={order} onChange={(e) => setOrder(e.currentTarget.value)}><option value="worst">worst R-hat first</option><option value="declared">declared order</option></select>
      </div>
      {list.error && list.error.status > 0 && <p class="note warn">Not up to date: {list.error.message}</p>}
      <VirtualTable label="Parameters" columns={columns} count={list.total} row={list.row} onRange={list.ensure} minWidth="64rem"
        onOpen={(r) => setQuery({ params: r.name, tab: "traces" }, {})} onToggle={(r) => flip(r.name)} compact={compactRow} compactHeight={62}
        empty={<Empty title="No parameter is saved" />} />
    </div>
  );
}

const compactRow = (r) => <Compact r={r} />;

function Compact({ r }) {
  return (
    <div class="row-card">
      <div><code>{r.name}</code><span class="spring" />R-hat <RhatText value={r.rhat} /> ESS <EssText value={r.ess_bulk} /></div>
      <div class="dim">{number(r.mean)} ± {number(r.sd, 3)} &nbsp; [{number(r.q5, 3)}, {number(r.q95, 3)}]</div>
    </div>
  );
}
