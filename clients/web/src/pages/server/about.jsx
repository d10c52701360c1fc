// Machine, disk space, quotas and limits of the server.
import { ago, bytes, count, duration, time } from "../../format.js";
import { useResource } from "../../resource.js";
import { session, useStore } from "../../store.js";
import { ProgressBar } from "../../ui/meter.jsx";
import { Resource } from "../../ui/states.jsx";
import { useQueue } from "./queue.jsx";

export function About() {
  const info = useResource("/v1/info", {}, { on: (type) => type === "job.progress" || type === "queue.changed", atLeast: 10000 });
  const me = useResource("/v1/me", {}, { on: (type) => type === "job.state" || type === "queue.changed", atLeast: 5000 });
  const queue = useQueue();
  return (
    <Resource of={info} what="the server">
      {(data) => (
        <div class="stack two">
          <div class="stack"><Machine info={data} />{data.disk && <Disk disk={data.disk} />}<Memory uses={data.memory} /></div>
          <div class="stack"><Quotas info={data} me={me.data} queue={queue.data} /><Limits limits={data.limits} /></div>
        </div>
      )}
    </Resource>
  );
}

const Rows = ({ rows }) => <table class="plain keyed"><tbody>{rows.map(([key, value, note]) => <tr key={key}><th>{key}</th><td class="wrap">{value}{note && <small class="dim"> {note}</small>}</td></tr>)}</tbody></table>;

function Machine({ info }) {
  const others = info.isa_available.filter((isa) => isa !== info.isa);
  return (
    <section class="card">
      <h2>Machine</h2>
      <Rows rows={[
        ["Version", `${info.name} ${info.version}`],
        ["Started", time(info.started_at), ago(info.started_at)],
        ["Address", location.origin],
        ["Workers", count(info.workers), "sampling threads"],
        ["Time slice", duration(info.slice_seconds), "a worker switches chains after this time"],
        ["Instruction set", info.isa, others.length ? `available: ${info.isa_available.join(", ")}` : "the only one available"],
        ["C library", info.libc],
      ]} />
    </section>
  );
}

function Disk({ disk }) {
  const low = disk.free_bytes < 2 * disk.reserve_bytes;
  return (
    <section class="card">
      <h2>Disk</h2>
      <p class={low ? "text-bad" : ""}>{bytes(disk.free_bytes)} free{low ? ": nearly full, new jobs are refused" : ""}</p>
      {disk.reserve_bytes > 0 && <p class="dim">Sampling pauses while less than {bytes(disk.reserve_bytes)} is free.</p>}
    </section>
  );
}

const MEMORY = { requests: "Requests and replies", data: "Data", chains: "Chains" };

function Memory({ uses }) {
  return (
    <section class="card">
      <h2>Memory</h2>
      <table class="plain stacked quotas">
        <tbody>{uses.map((u) => <Quota key={u.name} name={MEMORY[u.name] ?? u.name} used={u.used_bytes} most={u.total_bytes} show={bytes} />)}</tbody>
      </table>
      <p class="dim">Memory is reserved before it is used; one user can reserve at most half of each. A job or request that does not fit waits, or is refused with the reason. Settings: {uses.map((u) => u.setting).join(", ")}.</p>
    </section>
  );
}

// Quotas of the signed-in user, which may differ from the default.
function Quotas({ info, me, queue }) {
  const user = useStore(session, (s) => s.me?.user);
  const mine = queue?.users.find((u) => u.name === user);
  const { limits } = info;
  const jobs = me?.quotas?.active_jobs ?? limits.active_jobs;
  const stored = me?.quotas?.stored_mb ? me.quotas.stored_mb * 2 ** 20 : limits.stored_bytes;
  return (
    <section class="card">
      <h2>Your quotas</h2>
      <table class="plain stacked quotas">
        <tbody>
          <Quota name="Unfinished jobs" used={me?.usage?.active_jobs ?? (queue ? mine?.jobs ?? 0 : null)} most={jobs} show={count} />
          <Quota name="Running chains" used={queue ? mine?.running_chains ?? 0 : null} most={limits.running_chains} show={count} />
          <Quota name="Stored draws and references" used={me?.usage?.stored_bytes ?? null} most={stored} show={bytes} />
          <Quota name="Uploads" used={me?.usage?.upload_bytes ?? null} most={stored} show={bytes} />
        </tbody>
      </table>
      <p class="dim">Deleting jobs, references and uploads frees space; jobs in the trash do not count.</p>
    </section>
  );
}

function Quota({ name, used, most, show }) {
  const fraction = used === null ? null : used / most;
  return (
    <tr>
      <th class="first">{name}</th>
      <td class="wide"><ProgressBar value={fraction} tone={fraction >= 1 ? "failed" : fraction > 0.8 ? "paused" : ""} label={name} /></td>
      <td class="right">{used === null ? `at most ${show(most)}` : `${show(used)} of ${show(most)}`}</td>
    </tr>
  );
}

function Limits({ limits }) {
  return (
    <section class="card">
      <h2>Limits per job and request</h2>
      <Rows rows={[
        ["Iterations per chain", count(limits.iterations), "including warm-up"],
        ["Chains per job", count(limits.chains)],
        ["Parameters per model", count(limits.dimension)],
        ["Data file", bytes(limits.upload_bytes)],
        ["JSON body", bytes(limits.body_bytes)],
        ["Write requests per minute", count(limits.writes_per_minute), "per user"],
      ]} />
    </section>
  );
}
