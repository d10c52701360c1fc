// The table of pages: one file and one line each. Parts of the path become properties of the component.
//     nav: label in the navigation; role: roles that see it there (all if absent)
import { Jobs } from "./jobs.jsx";
import { Job } from "./job.jsx";
import { Studies } from "./studies.jsx";
import { Study } from "./study.jsx";
import { NewStudy } from "./newstudy.jsx";
import { Compare } from "./compare.jsx";
import { New } from "./new.jsx";
import { Server } from "./server.jsx";
import { match } from "../router.js";

export const PAGES = [
  { path: "/jobs", title: "Jobs", nav: "Jobs", component: Jobs },
  { path: "/new", title: "New job", nav: "New job", role: ["user", "admin"], component: New },
  { path: "/jobs/:id", title: "Job", component: Job },
  { path: "/studies", title: "Studies", nav: "Studies", component: Studies },
  { path: "/studies/new", title: "New study", component: NewStudy },
  { path: "/studies/:id", title: "Study", component: Study },
  { path: "/compare", title: "Compare", nav: "Compare", component: Compare },
  { path: "/server", title: "Server", nav: "Server", component: Server },
];

export { NotFound } from "./notfound.jsx";

export function findPage(path) {
  for (const page of PAGES) {
    const params = match(page.path, path);
    if (params) return { page, params };
  }
  return null;
}
