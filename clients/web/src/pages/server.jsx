// The server: queue, machine and limits, tokens, users.
import { useQuery } from "../router.js";
import { session, useStore } from "../store.js";
import { TabPanel, Tabs } from "../ui/tabs.jsx";
import { About } from "./server/about.jsx";
import { QueueView } from "./server/queue.jsx";
import { Tokens } from "./server/tokens.jsx";
import { Users } from "./server/users.jsx";

const VIEWS = { queue: QueueView, about: About, tokens: Tokens, users: Users };

export function Server() {
  const admin = useStore(session, (s) => s.me?.role === "admin");
  const [tab, setTab] = useQuery("tab", "queue");
  const tabs = [["queue", "Queue"], ["about", "Machine and limits"], ["tokens", "Tokens"], ...(admin ? [["users", "Users"]] : [])];
  const shown = tabs.some(([key]) => key === tab) ? tab : "queue";
  const View = VIEWS[shown];
  return (
    <div class="page stack">
      <h1>Server</h1>
      <Tabs label="Views of the server" tabs={tabs} value={shown} onChange={setTab} />
      <TabPanel name={shown}><View /></TabPanel>
    </div>
  );
}
