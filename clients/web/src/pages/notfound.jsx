import { Empty } from "../ui/states.jsx";

export function NotFound() {
  return <Empty title="Page not found">The link may come from another version. <a href="#/jobs">All jobs</a></Empty>;
}
