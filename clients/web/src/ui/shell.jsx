// The frame of every page: navigation, connection, theme, account.
import { live } from "../live.js";
import { PAGES } from "../pages/index.js";
import { connection, prefs, session, signOut, ticked, useStore } from "../store.js";
import { route } from "../router.js";
import { Button } from "./button.jsx";
import { Menu } from "./menu.jsx";

const WORDS = {
  connecting: ["wait", "connecting", "Opening the event stream."],
  live: ["good", "live", "Changes appear as they happen."],
  polling: ["warn", "polling", "No event stream; the page polls every few seconds."],
  offline: ["bad", "disconnected", "The server cannot be reached. The page shows the last known data and keeps reconnecting."],
  paused: ["wait", "paused", "Updates are paused until you resume them."],
  none: ["wait", "–", ""],
};

function Connection() {
  const { state, detail } = useStore(connection);
  const [tone, word, title] = WORDS[state];
  const paused = state === "paused";
  return (
    <span class="connection">
      <span class={`lamp ${tone}`} title={[title, detail].filter(Boolean).join(" ")} role="status" data-state={state}><i aria-hidden="true" />{word}</span>
      <Button kind="quiet" class="small" aria-pressed={paused} aria-label={paused ? "Resume updates" : "Pause updates"} title={paused ? "Resume live updates" : "Pause live updates"}
        onClick={() => (paused ? live.resume() : live.pause())}>{paused ? "Resume" : "Pause"}<span class="wide-only">updates</span></Button>
    </span>
  );
}

const THEMES = { auto: ["light", "◐", "System"], light: ["dark", "☀", "Light"], dark: ["auto", "☾", "Dark"] };

function Theme() {
  const theme = useStore(prefs, (p) => p.theme);
  const [next, sign, title] = THEMES[theme] || THEMES.auto;
  return <Button kind="quiet" class="small" title={`${title} theme; click to change`} aria-label={`Theme: ${title}`} onClick={() => prefs.set({ theme: next })}>{sign}</Button>;
}

function Nav() {
  const path = useStore(route, (r) => r.path);
  const role = useStore(session, (s) => s.me?.role);
  const count = useStore(ticked, (t) => t.ids.length);
  const shown = PAGES.filter((page) => page.nav && (!page.role || page.role.includes(role)));
  return (
    <nav aria-label="Pages">
      {shown.map((page) => (
        <a key={page.path} href={"#" + page.path} aria-current={path === page.path || path.startsWith(page.path + "/") ? "page" : undefined}>
          {page.nav}{page.badge === "ticked" && count > 0 && <b class="badge">{count}</b>}
        </a>
      ))}
    </nav>
  );
}

export function Shell({ children }) {
  const me = useStore(session, (s) => s.me);
  const offline = useStore(connection, (c) => c.state === "offline");
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
      <header class="top">
        <a class="brand" href="#/jobs">barkerd</a>
        <Nav />
        <span class="spring" />
        <Connection />
        <Theme />
        <Menu label={me ? `Signed in as ${me.user}, role ${me.role}` : "Account"} items={[{ label: "Sign out", run: () => signOut() }]}>{me?.user ?? "…"} ▾</Menu>
      </header>
      {offline && <div class="strip" role="alert">Disconnected. Showing the last known data; reconnecting…</div>}
      <main id="main" tabIndex={-1}>{children}</main>
    </>
  );
}
