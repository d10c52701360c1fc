// Downloads, code snippets, provenance and the request of a job.
import { useState } from "preact/hooks";
import { download, saveBlob } from "../../api.js";
import { bytes, count } from "../../format.js";
import { fileName } from "../../params.js";
import { session, useStore } from "../../store.js";
import { Button, CopyButton } from "../../ui/button.jsx";
import { Tabs } from "../../ui/tabs.jsx";
import { toast } from "../../ui/toast.jsx";
import { filesOf } from "./files.js";
import { SNIPPETS } from "./snippets.js";

export function Export({ job }) {
  return <div class="stack two"><div class="stack"><Downloads job={job} /><Snippets job={job} /><Provenance job={job} /></div><Request job={job} /></div>;
}

function Downloads({ job }) {
  const formats = useStore(session, (s) => s.info)?.draws_formats ?? [];
  const [running, setRunning] = useState(null); // {format, bytes, controller}
  const start = async (format) => {
    const controller = new AbortController();
    let before = 0, now = 0;
    const progress = (n) => {
      now = n;
      setRunning((old) => old && { ...old, bytes: before + n });
    };
    setRunning({ format, bytes: 0, controller });
    try {
      for (const { url, name } of filesOf(job, format)) {
        await download(url, name, { signal: controller.signal, progress });
        before += now;
      }
    } catch (error) {
      if (error.name !== "AbortError") toast(error.message, "bad");
    }
    setRunning(null);
  };
  return (
    <section class="card">
      <h2>Draws</h2>
      <p class="dim">All chains after warm-up{job.state === "running" ? ", so far" : ""}; {bytes(job.stored_bytes)} stored. The browser holds a download in memory until it is complete; for large files use the commands below.</p>
      <div class="bar-top">
        {formats.map((f) => <Button key={f.name} title={f.help} disabled={!!running} onClick={() => start(f)}>{f.name}</Button>)}
        {running && <span role="status">{bytes(running.bytes)}… <Button kind="quiet" class="small" onClick={() => running.controller.abort()}>Stop</Button></span>}
      </div>
    </section>
  );
}

function Snippets({ job }) {
  const [kind, setKind] = useState("curl");
  const text = SNIPPETS[kind].text(job, location.origin);
  return (
    <section class="card">
      <h2>Access from code</h2>
      <Tabs label="Language" tabs={Object.entries(SNIPPETS).map(([key, { name }]) => [key, name])} value={kind} onChange={setKind} />
      <pre class="code">{text}</pre>
      <CopyButton text={text} />
    </section>
  );
}

function Request({ job }) {
  const text = JSON.stringify(job.request, null, 2);
  return (
    <section class="card">
      <div class="bar-top"><h2>Request with all defaults</h2><span class="spring" /><CopyButton text={text} />
        <Button kind="quiet" class="small" onClick={() => saveBlob(new Blob([text + "\n"], { type: "application/json" }), `${fileName(job.name)}.json`)}>Save</Button></div>
      <pre class="code tall">{text}</pre>
    </section>
  );
}

function Provenance({ job }) {
  const info = useStore(session, (s) => s.info);
  const [train, test] = (job.data_sha256 ?? "").split(":");
  const rows = [
    ["Job", job.id], ["Seed", String(job.request?.seed ?? "–")], ["Revision", count(job.revision)],
    ["Server", info ? `barkerd ${info.version}` : "–"], ["Instruction set", job.isa], ["Data precision", job.precision ?? "no data"],
    ["C library", info?.libc ?? "–"], ["Submitted", job.created_at], ["Started", job.started_at ?? "–"], ["Ended", job.ended_at ?? "–"],
    ...(train ? [["SHA-256 of the data", train]] : []), ...(test ? [["SHA-256 of the test data", test]] : []),
  ];
  return (
    <section class="card">
      <h2>Provenance</h2>
      <table class="plain keyed"><tbody>{rows.map(([k, v]) => <tr key={k}><th>{k}</th><td class="mono wrap">{v}</td></tr>)}</tbody></table>
    </section>
  );
}
