// A sweep: its table of settings and its pictures, from the rows of the table.
import { useEffect, useMemo, useRef } from "preact/hooks";
import { download } from "../../api.js";
import { axisNumbers, count, number, rhat } from "../../format.js";
import { fileName } from "../../params.js";
import { useResource } from "../../resource.js";
import { useQuery } from "../../router.js";
import { ActionButton } from "../../ui/button.jsx";
import { Empty, Resource } from "../../ui/states.jsx";
import { VirtualTable } from "../../ui/table.jsx";
import { TabPanel, Tabs } from "../../ui/tabs.jsx";
import { Parallel } from "./parallel.jsx";
import { Curves } from "./curves.jsx";
import { axisOf, columnLabel, errorOf, isSetting, marksOf, settingLabel, sortedBy, sweptOf, valueOf } from "./rows.js";

const VIEWS = [["table", "Table", Table], ["curves", "Picture", Curves], ["parallel", "Parallel coordinates", Parallel]];

const BRIEF = ["bias_mean_mean", "max_rhat"]; // on a phone, after what is best

// Shown first; the others with "all measures".
const MAIN = ["ess_median", "ess_min", "ess_min_per_gradient", "max_rhat", "bias_mean_mean", "variance_ratio_median", "certified_mean"];

export function Sweep({ study, result }) {
  const [tab, setTab] = useQuery("tab", "table");
  // A long table is fetched less often while its jobs run.
  const table = useResource(`/v1/studies/${study.id}/table`, {}, { all: true, on: (type) => type === "job.state", atLeast: 2000 + 10 * result.settings });
  const state = useRef(study.state);
  useEffect(() => {
    if (state.current !== study.state) table.reload(); // the last rows are taken a moment after the last event
    state.current = study.state;
  }, [study.state]);
  const [name, , View] = VIEWS.find(([key]) => key === tab) ?? VIEWS[0];
  return (
    <Resource of={table} what="the table">
      {({ items }) => <>
        <References list={result.references} whose={study.request.reference === "exact" ? "an exact sampler" : study.request.reference} />
        <Tabs label="Views of the sweep" tabs={VIEWS} value={name} onChange={(key) => setTab(key, {})} />
        <TabPanel name={name}><Shown View={View} study={study} result={result} rows={items} /></TabPanel>
      </>}
    </Resource>
  );
}

// What biases are measured against.
function References({ list, whose }) {
  if (!list.length) return null;
  return (
    <p class="dim">Biases are against {whose}: {list.map((r, i) => (
      <span key={i}>{i > 0 && ", "}{r.job ? <a href={`#/jobs/${r.job}`}>{r.name ?? "its job"}</a> : r.name}{Object.keys(r.setting).length > 0 && ` for ${Object.values(r.setting).join(", ")}`}{r.state !== "ready" && <span class={r.state === "failed" ? "text-bad" : ""}> ({r.state})</span>}</span>
    ))}</p>
  );
}

function Shown({ View, study, result, rows }) {
  const { job, best: rule } = study.request;
  const swept = useMemo(() => sweptOf(rows, job), [rows]);
  const measures = useMemo(() => result.columns.filter((name) => rows.some((row) => valueOf(row, name) !== null)), [rows, result.columns.length]);
  if (!rows.length) return <Empty title="No settings">The grid is empty.</Empty>;
  return <View study={study} rows={rows} job={job} rule={rule} best={result.best} swept={swept} axis={axisOf(swept)} measures={measures} />;
}

// ---- the table ----

const MARKS = { best: ["good", "best"], rival: ["good", "within chance"], worst: ["bad", "worst"] };

function Mark({ mark }) {
  if (!mark) return null;
  const [tone, words] = MARKS[mark];
  return <span class={`level ${tone}`}>{words}</span>;
}

function SettingValue({ value }) {
  const shown = typeof value === "number" ? axisNumbers([Number(value.toPrecision(4))])[0] : typeof value === "string" ? value : JSON.stringify(value);
  return <span class="clip" title={String(typeof value === "number" ? value : shown)}>{shown}</span>;
}

function Measure({ row, name }) {
  const value = valueOf(row, name), error = errorOf(row, name);
  if (value === null) return <span class="dim" title={row.reason ?? "no value"}>–</span>;
  return <span title={error === null ? "" : `standard error ${error}`}>{name === "max_rhat" ? rhat(value) : number(value, 3)}{error > 0 && <small class="dim"> ± {number(error, 2)}</small>}</span>;
}

const LINKED = 6; // jobs of a setting with a link each; the list of the study's jobs has all

function JobLinks({ row, study }) {
  if (!row.jobs.length) return <span class="dim">–</span>;
  return (
    <span class="job-links">
      {row.jobs.slice(0, LINKED).map((id, i) => <a key={id} href={`#/jobs/${id}`} title={`Job ${id}`} aria-label={`Job ${i + 1} of setting ${row.index}`}>{i + 1}</a>)}
      {row.jobs.length > LINKED && <a href={`#/jobs?study=${study.id}`} title="All jobs of the study">…</a>}
    </span>
  );
}

function stateText(row) {
  const bad = [row.failed - row.diverged > 0 && `${row.failed - row.diverged} failed`, row.diverged > 0 && `${row.diverged} diverged`].filter(Boolean);
  return <span class={bad.length ? "text-bad" : "dim"} title={row.reason ?? ""}>{bad.join(", ") || row.state}</span>;
}

const widthOf = (name) => Math.max(8.5, 2.5 + 0.48 * columnLabel(name).length); // in rem, the heading in one line

function columnsOf({ study, swept, measures, job, marks }) {
  return [
    { key: "index", label: "#", title: "Setting, in the order of the grid", width: "3.2rem", align: "right", sort: true, render: (row) => count(row.index) },
    ...swept.map(({ pointer, numeric }) => ({
      key: pointer, label: settingLabel(pointer), title: pointer, sort: true, width: "minmax(5.5rem, 1fr)", align: numeric ? "right" : undefined, render: (row) => <SettingValue value={valueOf(row, pointer, job)} />,
    })),
    ...(marks.size ? [{ key: "mark", label: "", width: "7rem", align: "indent", render: (row) => <Mark mark={marks.get(row.index)} /> }] : []),
    { key: "state", label: "State", width: "6rem", align: "indent", render: stateText },
    { key: "jobs", label: "Jobs", title: "One for each seed", width: "6.5rem", render: (row) => <JobLinks row={row} study={study} /> },
    ...measures.map((name) => ({ key: name, label: columnLabel(name), title: `${columnLabel(name)} (${name}), mean over the seeds ± its standard error`, sort: true, width: `minmax(${widthOf(name)}rem, 1fr)`, align: "right", render: (row) => <Measure row={row} name={name} /> })),
  ];
}

function criterionOf(rule) {
  const bounds = (words, limits) => Object.entries(limits ?? {}).map(([name, limit]) => `${columnLabel(name)} ${words} ${number(limit, 3)}`);
  return [`${columnLabel(rule.maximize ?? rule.minimize)}, ${rule.maximize ? "maximized" : "minimized"}`, ...bounds("at most", rule.at_most), ...bounds("at least", rule.at_least)].join("; ");
}

function Table({ study, rows, job, rule, best, swept, measures }) {
  const [sort, setSort] = useQuery("sort", "index");
  const [which, setWhich] = useQuery("columns", "main");
  const down = sort.startsWith("-"), key = sort.replace(/^-/, "");
  const marks = useMemo(() => marksOf(rows, rule, best), [rows, best?.index]);
  const shown = useMemo(() => {
    const wanted = new Set([...MAIN, best?.by, ...Object.keys(rule?.at_most ?? {}), ...Object.keys(rule?.at_least ?? {})]);
    return which === "all" ? measures : measures.filter((name) => wanted.has(name) || name.endsWith("_ergodic"));
  }, [measures, which, best?.by]);
  const columns = useMemo(() => columnsOf({ study, swept, measures: shown, job, marks }), [swept, shown, marks, study.id]);
  const sorted = useMemo(() => sortedBy(rows, key, down, job), [rows, sort]);
  const onSort = (next) => setSort(next === key ? (down ? next : `-${next}`) : isSetting(next) || next === "index" ? next : `-${next}`);
  const compact = useMemo(() => (row) => <Card row={row} job={job} swept={swept} names={[best?.by ?? "ess_median", ...BRIEF.filter((name) => name !== best?.by && measures.includes(name))]} mark={marks.get(row.index)} study={study} />, [swept, shown, marks, study.id]);
  return (
    <div class="stack">
      <div class="bar-top">
        <span class="dim">{count(rows.length)} settings{rule && `; criterion: ${criterionOf(rule)}`}</span><span class="spring" />
        <select aria-label="Measures" value={which} onChange={(e) => setWhich(e.currentTarget.value)}><option value="main">main measures</option><option value="all">all measures</option></select>
        <ActionButton action={() => download(`/v1/studies/${study.id}/table?format=csv`, `${fileName(study.name)}.csv`)}>Download CSV</ActionButton>
      </div>
      <div class="sweep-table"><VirtualTable label="Settings" columns={columns} count={sorted.length} row={(i) => sorted[i]} sort={{ key, down }} onSort={onSort} height={32}
        minWidth={`${26 + 6.5 * swept.length + shown.reduce((sum, name) => sum + 0.7 + widthOf(name), 0)}rem`} compact={compact} compactHeight={100} rowClass={(row) => `marked-${marks.get(row.index) ?? "none"}`} /></div>
    </div>
  );
}

function Card({ row, job, swept, names, mark, study }) {
  return (
    <div class="job-card">
      <div><b class="clip">{swept.map(({ pointer }) => `${settingLabel(pointer)} ${valueOf(row, pointer, job)}`).join(", ")}</b><Mark mark={mark} /></div>
      <div class="facts">{names.map((name) => <span key={name}><small class="dim">{columnLabel(name)}</small> <Measure row={row} name={name} /></span>)}</div>
      <div>{stateText(row)} jobs <JobLinks row={row} study={study} /></div>
    </div>
  );
}
