// The log of a job.
import { time } from "../../format.js";
import { useResource } from "../../resource.js";
import { Empty, Resource } from "../../ui/states.jsx";

export function Log({ job }) {
  const log = useResource(`/v1/jobs/${job.id}/log`, { limit: 1000 }, { on: (type, data) => data.id === job.id && type !== "job.progress" });
  return (
    <Resource of={log} what="the log">
      {(data) => (data.items.length === 0 ? <Empty title="No log entries yet" /> : (
        <ol class="log card">
          {[...data.items].reverse().map((line) => <li key={line.seq}><time dateTime={line.at} title={line.at}>{time(line.at)}</time><span>{line.text}</span></li>)}
          {data.next && <li class="dim">Only 1000 entries are shown; <code>barker log {job.id}</code> prints all.</li>}
        </ol>
      ))}
    </Resource>
  );
}
