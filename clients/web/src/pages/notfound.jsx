import { Empty } from "../ui/states.jsx";

export function NotFound() {
  return <Empty title="Page not found">The link may be from another version of barkerd. <a href="#/jobs">All jobs</a></Empty>;
}
