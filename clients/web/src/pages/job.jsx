import { useResource } from "../resource.js";
import { Resource } from "../ui/states.jsx";

export function Job({ id }) {
  const job = useResource(`/v1/jobs/${id}`, {}, { job: id });
  return <div class="page"><Resource of={job} what="the job">{(data) => <h1>{data.name}</h1>}</Resource></div>;
}
