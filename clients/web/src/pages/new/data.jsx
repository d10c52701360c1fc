// Data of the new job: file, upload, preview, columns.
import { useRef, useState } from "preact/hooks";
import { bytes, count, percent, plural, time } from "../../format.js";
import { useResource } from "../../resource.js";
import { Button } from "../../ui/button.jsx";
import { confirm } from "../../ui/dialog.jsx";
import { ProgressBar } from "../../ui/meter.jsx";
import { Failure, Loading } from "../../ui/states.jsx";
import { toast } from "../../ui/toast.jsx";
import { readLines, showLines, takes } from "./document.js";
import { Choice, Entry, Flag } from "./fields.jsx";
import { upload, uploadName } from "./upload.js";

const LISTED = 300; // entries in a select; with more, a text field
const CHIPS = 150; // columns as buttons; with more, a text field
const SHOWN_COLUMNS = 30;

export function Data({ form, model }) {
  const files = useResource("/v1/datasets");
  const path = form.get("/data/path");
  const known = typeof path === "string" && files.data?.items.some((f) => f.name === path);
  const file = useResource(known ? `/v1/datasets/${path}` : null, { rows: 6 });
  const preview = known && file.data?.name === path ? file.data : null;
  const uploaded = (name) => {
    files.reload();
    file.reload();
    form.set("/data/path", name);
  };
  return (
    <section class="card" aria-label="Data">
      <h2>Data</h2>
      {files.error && !files.data && <Failure error={files.error} retry={files.reload} />}
      <div class="form-grid">
        <FileField form={form} at="/data/path" label="File" files={files.data?.items} problem={form.problem("/data/path") ?? form.problem("/data", false)} none={null} />
        <FileField form={form} at="/data/test" label="Test file" files={files.data?.items} none="none"
          hint={model.metrics.length ? `held-out rows for ${model.metrics.join(", ")}` : "this model has no held-out metrics"} />
        <Upload files={files.data?.items ?? []} done={uploaded} />
      </div>
      {known && !preview && (file.error ? <Failure error={file.error} retry={file.reload} /> : <Loading what={path} />)}
      {preview && <Preview file={preview} form={form} model={model} />}
      <Columns form={form} model={model} columns={preview?.columns} />
    </section>
  );
}

function FileField({ form, at, label, files, none, ...rest }) {
  if (!files) return <Choice form={form} at={at} label={label} options={[["", "loading…"]]} disabled {...rest} />;
  if (files.length > LISTED) {
    const list = `files${at.replace(/\//g, "-")}`;
    const text = String(form.get(at) ?? "");
    return (
      <>
        <Entry form={form} at={at} label={label} list={list} placeholder={none ?? "type part of the name"} {...rest} />
        <datalist id={list}>{files.filter((f) => f.name.includes(text)).slice(0, 50).map((f) => <option key={f.name} value={f.name} />)}</datalist>
      </>
    );
  }
  const names = (own) => files.filter((f) => f.shared !== own).map((f) => [f.name, own ? `${f.name} (yours)` : f.name]);
  return <Choice form={form} at={at} label={label} options={[["", none ?? (files.length ? "choose…" : "no files yet")], ...names(true), ...names(false)]} {...rest} />;
}

function Upload({ files, done }) {
  const [running, setRunning] = useState(null); // {name, fraction, controller}
  const input = useRef();
  const start = async (file) => {
    if (!file) return;
    const name = uploadName(file.name);
    const old = files.find((f) => f.name === name && !f.shared);
    if (old && !(await confirm({ title: `Replace “${name}”?`, text: `You already have a file of this name (${bytes(old.bytes)}, ${time(old.modified_at)}). Unfinished jobs that use the old file cannot continue with the new one.`, action: "Replace" }))) return;
    const controller = new AbortController();
    setRunning({ name, fraction: 0, controller });
    try {
      await upload(name, file, { signal: controller.signal, progress: (fraction) => setRunning((u) => u && { ...u, fraction }) });
      toast(`Uploaded ${name} (${bytes(file.size)}).`);
      done(name);
    } catch (error) {
      if (error.name !== "AbortError") toast(`${name}: ${error.message}`, "bad");
    }
    setRunning(null);
  };
  const drop = (event) => {
    event.preventDefault();
    start(event.dataTransfer.files[0]);
  };
  return (
    <div class="field upload" onDragOver={(e) => e.preventDefault()} onDrop={drop}>
      <span>Upload</span>
      <input ref={input} type="file" hidden accept=".csv,.npy,.txt,text/csv" onChange={(e) => { start(e.currentTarget.files[0]); e.currentTarget.value = ""; }} />
      {running ? (
        <span class="progress-cell" role="status"><ProgressBar value={running.fraction} label={`Upload of ${running.name}`} /><small>{percent(running.fraction)}</small>
          <Button kind="quiet" class="small" onClick={() => running.controller.abort()}>Stop</Button></span>
      ) : <Button onClick={() => input.current.click()}>Choose a file or drop it here</Button>}
      <small>CSV or NumPy; visible only to you</small>
    </div>
  );
}

// A value of the file, to six digits.
const plain = (x) => (typeof x === "number" ? String(Number(x.toPrecision(6))).replace("-", "−") : "–");

function Preview({ file, form, model }) {
  if (file.problem && form.get("/formula")) return <p class="note">Text, missing values and row names are read with the formula when the job is checked.</p>;
  if (file.problem) return form.problem("/data/path") ? null : <p class="note bad" role="alert">This file cannot be used: {file.problem}</p>;
  const response = takes(model, "response") ? form.get("/data/response") ?? form.defaultOf("/data/response") : null;
  const only = form.get("/data/columns");
  const offset = takes(model, "offset") ? form.get("/data/offset") : undefined;
  const weights = takes(model, "weights") ? form.get("/data/weights") : undefined;
  const role = (name) => (name === response ? "response" : name === offset ? "offset" : name === weights ? "weights" : Array.isArray(only) && takes(model, "columns") && !only.includes(name) ? "unused" : "");
  const shown = file.columns.slice(0, SHOWN_COLUMNS);
  const rest = file.columns.length - shown.length;
  return (
    <div class="preview">
      <p class="facts dim">{file.rows !== undefined && <span>{plural(file.rows, "row")}</span>}<span>{plural(file.columns.length, "column")}{file.header ? "" : ", no header"}</span><span>{bytes(file.bytes)}</span>
        <span>{file.shared ? "shared" : "yours"}, {time(file.modified_at)}</span>{file.sha256 && <span class="mono" title={`SHA-256 ${file.sha256}`}>{file.sha256.slice(0, 10)}…</span>}</p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={`First rows of ${file.name}`}>
        <table class="plain sample">
          <thead><tr>{shown.map((name) => <th key={name} class={`right ${role(name)}`}><span class="clip" title={name}>{name}</span>{role(name) && <small>{role(name)}</small>}</th>)}{rest > 0 && <th class="dim">and {count(rest)} more</th>}</tr></thead>
          <tbody>{file.preview.map((row, i) => <tr key={i}>{shown.map((name, j) => <td key={name} class={`right ${role(name)}`}>{plain(row[j])}</td>)}{rest > 0 && <td class="dim">…</td>}</tr>)}</tbody>
        </table>
      </div>
    </div>
  );
}

const PRECISIONS = [["auto", "automatic"], ["single", "single"], ["double", "double"]];

function Columns({ form, model, columns }) {
  const response = form.get("/data/response") ?? form.defaultOf("/data/response");
  const formula = form.get("/formula");
  const replaced = ["response", "columns", "offset", "intercept", "standardize"]; // by a formula
  const show = (field) => form.get(`/data/${field}`) !== undefined || (takes(model, field) && !(formula && replaced.includes(field)));
  const names = columns ?? [];
  const others = takes(model, "response") ? [response, form.get("/data/offset"), form.get("/data/weights")] : []; // not covariates
  return (
    <>
      {(takes(model, "response") || formula !== undefined) && <Entry form={form} at="/formula" label="Formula" placeholder="none: columns are chosen below"
        hint="as in R: recovered ~ age * sex + log(dose); factors, missing values and an intercept come with it, and priors in units of the data" />}
      <div class="form-grid">{/* keys keep the fields when the columns are loaded */}
        {show("response") && (names.length > 0 && names.length <= LISTED
          ? <Choice key="response" form={form} at="/data/response" label="Response" fallback={form.defaultOf("/data/response")} options={names} />
          : <Entry key="response" form={form} at="/data/response" label="Response" hint="a column of the file" />)}
        {show("columns") && <Covariates key="columns" form={form} names={names} others={others} response={takes(model, "response")} />}
        {show("offset") && (names.length <= LISTED
          ? <Choice key="offset" form={form} at="/data/offset" label="Offset" options={[["", "none"], ...names.filter((n) => n !== response)]} hint="column added to the linear predictor" />
          : <Entry key="offset" form={form} at="/data/offset" label="Offset" placeholder="none" hint="column added to the linear predictor" />)}
        {show("weights") && (names.length <= LISTED
          ? <Choice key="weights" form={form} at="/data/weights" label="Weights" options={[["", "none"], ...names.filter((n) => n !== response)]} hint="column that says how often each row counts" />
          : <Entry key="weights" form={form} at="/data/weights" label="Weights" placeholder="none" hint="column that says how often each row counts" />)}
        <Choice key="precision" form={form} at="/data/precision" label="Precision" options={PRECISIONS} fallback={form.defaultOf("/data/precision")} hint="automatic: single if lossless, else double" />
      </div>
      {Array.isArray(form.get("/data/columns")) && show("columns") && <Chips form={form} names={names.filter((n) => !others.includes(n))} />}
      {(show("intercept") || show("standardize")) && (
        <div class="flags">
          {show("intercept") && <Flag form={form} at="/data/intercept" label="Intercept" hint="add a column of ones, as the last column" />}
          {show("standardize") && <Flag form={form} at="/data/standardize" label="Standardize" hint="scale columns to mean 0 and sd 1; the test file is scaled in the same way" />}
        </div>
      )}
    </>
  );
}

function Covariates({ form, names, others, response }) {
  const value = form.get("/data/columns");
  const all = names.filter((n) => !others.includes(n));
  return <Choice form={form} at="/data/columns" label={response ? "Covariates" : "Columns"} value={Array.isArray(value) ? "some" : showLines(value)} problem={form.problem("/data/columns", !Array.isArray(value))}
    options={[["", response ? "all except the response" : "all"], ["some", Array.isArray(value) ? `${count(value.length)} of ${count(all.length)}` : "selected columns…"]]}
    onChange={(v) => form.set("/data/columns", v === "" ? undefined : all)} />;
}

// Selection of columns: buttons, or one name per line if there are very many.
function Chips({ form, names }) {
  const value = form.get("/data/columns");
  if (!names.length || names.length > CHIPS)
    return <Entry form={form} at="/data/columns" label="Column names, one per line, in order" area rows={6} read={readLines} show={showLines} />;
  const toggle = (name) => form.set("/data/columns", value.includes(name) ? value.filter((n) => n !== name) : [...value, name]);
  const problem = form.problem("/data/columns");
  return (
    <div class="field" role="group" aria-label="Columns used">
      <span class="choose">
        {names.map((name) => <button key={name} type="button" class="chip pick" aria-pressed={value.includes(name)} onClick={() => toggle(name)}>{name}</button>)}
        <Button kind="quiet" class="small" onClick={() => form.set("/data/columns", names)}>all</Button>
        <Button kind="quiet" class="small" onClick={() => form.set("/data/columns", [])}>none</Button>
      </span>
      {problem ? <small class="problem" role="alert">{problem}</small> : value.some((n) => !names.includes(n)) && <small>Selected, but not among these columns: {value.filter((n) => !names.includes(n)).join(", ")}</small>}
    </div>
  );
}
