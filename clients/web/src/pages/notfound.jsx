import { Empty } from "../ui/states.jsx";

export function NotFound() {
  return <Empty title="There is no such page">The address may be of another version. <a href="#/jobs">All jobs</a></Empty>;
}
