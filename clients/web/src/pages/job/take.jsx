// What is needed to repeat the job and to take its draws elsewhere.
import { useState } from "preact/hooks";
import { download, saveBlob } from "../../api.js";
import { bytes, count } from "../../format.js";
import { fileName } from "../../params.js";
import { session, useStore } from "../../store.js";
import { Button, CopyButton } from "../../ui/button.jsx";
import { Tabs } from "../../ui/tabs.jsx";
import { toast } from "../../ui/toast.jsx";
import { filesOf } from "./files.js";
import { LINES } from "./lines.js";

export function Take({ job }) {
  return <div class="stack two"><div class="stack"><Downloads job={job} /><CopyLines job={job} /><Versions job={job} /></div><Request job={job} /></div>;
}

function Downloads({ job }) {
  const formats = useStore(session, (s) => s.info)?.draws_formats ?? [];
  const [under, setUnder] = useState(null); // {format, bytes, controller}
  const start = async (format) => {
    const controller = new AbortController();
    let before = 0, now = 0;
    const progress = (n) => {
      now = n;
      setUnder((old) => old && { ...old, bytes: before + n });
    };
    setUnder({ format, bytes: 0, controller });
    try {
      for (const { url, name } of filesOf(job, format)) {
        await download(url, name, { signal: controller.signal, progress });
        before += now;
      }
    } catch (error) {
      if (error.name !== "AbortError") toast(error.message, "bad");
    }
    setUnder(null);
  };
  return (
    <section class="card">
      <h2>Draws</h2>
      <p class="dim">All chains after warm-up{job.state === "running" ? ", as far as they are" : ""}. {bytes(job.stored_bytes)} are stored; large files are better taken with the lines below, which do not go through the browser’s memory.</p>
      <div class="bar-top">
        {formats.map((f) => <Button key={f.name} title={f.help} disabled={!!under} onClick={() => start(f)}>{f.name}</Button>)}
        {under && <span role="status">{bytes(under.bytes)}… <Button kind="quiet" class="small" onClick={() => under.controller.abort()}>Stop</Button></span>}
      </div>
    </section>
  );
}

function CopyLines({ job }) {
  const [kind, setKind] = useState("curl");
  const text = LINES[kind].text(job, location.origin);
  return (
    <section class="card">
      <h2>From elsewhere</h2>
      <Tabs label="Language" tabs={Object.entries(LINES).map(([key, { name }]) => [key, name])} value={kind} onChange={setKind} />
      <pre class="code">{text}</pre>
      <CopyButton text={text} />
    </section>
  );
}

function Request({ job }) {
  const text = JSON.stringify(job.request, null, 2);
  return (
    <section class="card">
      <div class="bar-top"><h2>Request, every default resolved</h2><span class="spring" /><CopyButton text={text} />
        <Button kind="quiet" class="small" onClick={() => saveBlob(new Blob([text + "\n"], { type: "application/json" }), `${fileName(job.name)}.json`)}>Save</Button></div>
      <pre class="code tall">{text}</pre>
    </section>
  );
}

function Versions({ job }) {
  const info = useStore(session, (s) => s.info);
  const [train, test] = (job.data_sha256 ?? "").split(":");
  const rows = [
    ["Job", job.id], ["Seed", String(job.request?.seed ?? "–")], ["Revision", count(job.revision)],
    ["Server", info ? `barkerd ${info.version}` : "–"], ["Instruction set", job.isa], ["Precision of the data", job.precision ?? "no data"],
    ["C library", info?.libc ?? "–"], ["Submitted", job.created_at], ["First slice", job.started_at ?? "–"], ["Ended", job.ended_at ?? "–"],
    ...(train ? [["SHA-256 of the data", train]] : []), ...(test ? [["SHA-256 of the test data", test]] : []),
  ];
  return (
    <section class="card">
      <h2>Versions</h2>
      <table class="plain keyed"><tbody>{rows.map(([k, v]) => <tr key={k}><th>{k}</th><td class="mono wrap">{v}</td></tr>)}</tbody></table>
    </section>
  );
}
