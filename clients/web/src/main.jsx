// Entry point: sign-in, page lookup, rendering.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { api } from "./api.js";
import { live } from "./live.js";
import { NotFound, findPage } from "./pages/index.js";
import { SignIn } from "./pages/signin.jsx";
import { navigate, route } from "./router.js";
import { prefs, session, signIn, signOut, useStore } from "./store.js";
import { Questions } from "./ui/dialog.jsx";
import { Shell } from "./ui/shell.jsx";
import { Toasts } from "./ui/toast.jsx";

// A single-use sign-in link. The ticket is removed from the URL and the history before it is used.
async function redeem() {
  const { path, query } = route.get();
  if (!query.ticket) return;
  const { ticket, ...rest } = query;
  navigate(path, rest, { replace: true });
  try {
    const { token } = await api.post("/v1/tickets/redeem", { ticket }, { token: null });
    signIn(token);
  } catch (error) {
    // An expired link does not end an existing session.
    if (!session.get().token)
      signOut(error.status === 0 ? "The server cannot be reached." : "The link has already been used or is older than a minute. Get a new one with “barker open last”, or sign in with a token.");
  }
}

async function loadSession(token) {
  try {
    const [me, info] = await Promise.all([api.get("/v1/me"), api.get("/v1/info")]);
    if (session.get().token === token) session.set({ me, info });
  } catch {
    // 401 has signed out; without a connection the event stream retries
  }
}

function App() {
  const token = useStore(session, (s) => s.token);
  const theme = useStore(prefs, (p) => p.theme);
  const path = useStore(route, (r) => r.path);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useEffect(() => {
    if (!token) return undefined;
    loadSession(token);
    live.start();
    return () => live.stop();
  }, [token]);
  useEffect(() => {
    if (token && path === "/") navigate("/jobs", {}, { replace: true });
  }, [token, path]);

  const found = findPage(path);
  useEffect(() => {
    document.title = token && found ? `${found.page.title} · barkerd` : "barkerd";
  }, [token, found?.page]);
  if (!token) return <><SignIn /><Toasts /></>;
  const Page = found ? found.page.component : NotFound;
  return (
    <>
      <Shell><Page key={path} {...found?.params} /></Shell>
      <Toasts />
      <Questions />
    </>
  );
}

route.watch(redeem);
redeem().then(() => render(<App />, document.getElementById("app")));
