// Loading, empty and error states: no view is ever blank.
import { Button } from "./button.jsx";

export function Loading({ what = "" }) {
  return <div class="state" role="status"><span class="spinner" aria-hidden="true" /> Loading{what && ` ${what}`}…</div>;
}

// No content, and what to do about it.
export function Empty({ title, children }) {
  return <div class="state"><strong>{title}</strong>{children && <p>{children}</p>}</div>;
}

export function Failure({ error, retry }) {
  const waiting = error.status === 409;
  return (
    <div class={waiting ? "state" : "state bad"} role={waiting ? "status" : "alert"}>
      <strong>{error.status === 0 ? "The server cannot be reached" : error.title || "The request failed"}</strong>
      {error.status !== 0 && <p>{error.message}</p>}
      <Mistakes errors={error.errors} />
      {error.status === 0 && <p>The page reconnects automatically.</p>}
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

export function Mistakes({ errors }) {
  if (!errors?.length) return null;
  return <ul class="mistakes">{errors.map((e) => <li key={e.pointer + e.detail}><code>{e.pointer}</code> {e.detail}</li>)}</ul>;
}

// <Resource of={trace} what="traces">{(data) => …}</Resource>: loading, failed, or the content;
// with a note if the data are stale because the last fetch failed.
export function Resource({ of, what, empty, children }) {
  if (of.data === null && of.error) return <Failure error={of.error} retry={of.reload} />;
  if (of.data === null) return of.loading ? <Loading what={what} /> : empty ?? null;
  return (
    <>
      {of.error && of.error.status !== 0 && <p class="note warn" role="status">Not up to date: {of.error.message}</p>}
      {children(of.data)}
    </>
  );
}
