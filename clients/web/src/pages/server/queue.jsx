// Running and waiting jobs, and each user's share.
import { count, duration, percent, plural } from "../../format.js";
import { useResource } from "../../resource.js";
import { session, useStore } from "../../store.js";
import { ProgressBar } from "../../ui/meter.jsx";
import { Empty, Resource } from "../../ui/states.jsx";
import { StateMark } from "../../ui/tag.jsx";

const SQUARES = 64; // up to this many workers are drawn as squares
const ROWS = 200;

export const useQueue = () => useResource("/v1/queue", {}, { on: (type) => type === "queue.changed" || type === "job.state" || type === "job.progress", atLeast: 1500 });

export function QueueView() {
  const queue = useQueue();
  return (
    <Resource of={queue} what="the queue">
      {(data) => (
        <div class="stack">
          <Workers queue={data} />
          <Jobs title="Running" jobs={data.running} empty="No jobs are running." />
          <Jobs title="Waiting" jobs={data.waiting} numbered empty={data.running.length ? "No jobs are waiting." : "No jobs are waiting; a new job starts at once."} />
          <Shares users={data.users} />
        </div>
      )}
    </Resource>
  );
}

function Workers({ queue }) {
  const { workers, busy } = queue;
  return (
    <section class="card" aria-label="Workers">
      <div class="bar-top">
        <h2>Workers</h2>
        {workers <= SQUARES && <span class="workers" aria-hidden="true">{Array.from({ length: workers }, (_, i) => <i key={i} class={i < busy ? "busy" : ""} />)}</span>}
        <span>{count(busy)} of {count(workers)} busy</span>
        <span class="dim">{plural(queue.running.length, "job")} running, {count(queue.waiting.length)} waiting</span>
      </div>
    </section>
  );
}

function Jobs({ title, jobs, numbered, empty }) {
  const me = useStore(session, (s) => s.me?.user);
  return (
    <section class="card" aria-label={title}>
      <h2>{title} <span class="dim">{jobs.length > 0 && count(jobs.length)}</span></h2>
      {jobs.length === 0 ? <p class="dim">{empty}</p> : (
        <div class="scroll-x">
          <table class="plain stacked queue">
            <thead><tr>{numbered && <th class="right">#</th>}<th>Job</th><th>Owner</th><th>State</th><th class="right">Chains</th><th class="right">Priority</th><th>Reason</th></tr></thead>
            <tbody>
              {jobs.slice(0, ROWS).map((job, i) => (
                <tr key={job.id ?? `private ${i}`}>
                  {numbered && <td class="right dim" data-th="#">{i + 1}</td>}
                  <td class="wrap first">{job.id ? <a href={`#/jobs/${job.id}`}>{job.name}</a> : <span class="dim">private job</span>}</td>
                  <td data-th="Owner">{job.owner === me ? <strong>{job.owner}</strong> : job.owner}</td>
                  <td data-th="State"><StateMark state={job.state} /></td>
                  <td class="right" data-th="Chains">{numbered ? count(job.chains) : `${count(job.running_chains)} of ${count(job.chains)}`}</td>
                  <td class="right" data-th="Priority">{job.priority}</td>
                  <td class="wrap dim reason">{job.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {jobs.length > ROWS && <p class="dim">and {count(jobs.length - ROWS)} more</p>}
        </div>
      )}
    </section>
  );
}

function Shares({ users }) {
  const me = useStore(session, (s) => s.me?.user);
  const sorted = [...users].sort((a, b) => a.usage_seconds - b.usage_seconds);
  return (
    <section class="card" aria-label="Shares">
      <h2>Shares</h2>
      <p class="dim">The next time slice goes to the user with the smallest recent use, and among that user’s jobs to the one with the highest priority. Recent use is CPU time that decays with a half-life of one day.</p>
      {sorted.length === 0 ? <Empty title="No recent use" /> : (
        <div class="scroll-x">
          <table class="plain stacked">
            <thead><tr><th>User</th><th class="wide">Share of recent use</th><th /><th class="right">Recent use</th><th class="right">Running chains</th><th class="right">Unfinished jobs</th></tr></thead>
            <tbody>
              {sorted.map((u) => (
                <tr key={u.name}>
                  <td class="first">{u.name === me ? <strong>{u.name}</strong> : u.name}</td>
                  <td class="wide" data-th="Share"><ProgressBar value={u.share} label={`Share of ${u.name}`} /></td>
                  <td class="right">{percent(u.share)}</td>
                  <td class="right" data-th="Recent use">{duration(u.usage_seconds)}</td>
                  <td class="right" data-th="Running chains">{count(u.running_chains)}</td>
                  <td class="right" data-th="Unfinished jobs">{count(u.jobs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
