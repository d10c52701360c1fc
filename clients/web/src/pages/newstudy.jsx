// A new study: one JSON document, begun with an example and checked by the daemon while the user types.
import { useRef, useState } from "preact/hooks";
import { plural } from "../format.js";
import { navigate } from "../router.js";
import { createStore, session, useStore } from "../store.js";
import { Button } from "../ui/button.jsx";
import { Empty } from "../ui/states.jsx";
import { useCheck } from "./new/check.js";
import { pretty } from "./new/document.js";
import { Editor } from "./new/editor.jsx";
import { ErrorList } from "./new/status.jsx";
import { submit as send } from "./new/submit.js";
import { EXAMPLES } from "./study/examples.js";

// The text survives a change of page.
const draft = createStore({ doc: EXAMPLES[0].doc });
session.watch(() => session.get().token || draft.set({ doc: EXAMPLES[0].doc }));

export function NewStudy() {
  const role = useStore(session, (s) => s.me?.role);
  if (role === "viewer") return <div class="page"><Empty title="Viewers cannot start studies">Starting studies needs the role “user”. An admin can change your role.</Empty></div>;
  return <Writing />;
}

function lampOf(check, broken) {
  if (broken) return ["bad", "invalid JSON"];
  if (check.phase === "checking") return ["wait", "checking…"];
  if (check.phase === "wrong") return ["bad", plural(check.errors.length, "error")];
  return check.phase === "valid" ? ["good", `valid, ${plural(check.result.jobs, "job")}`] : ["warn", "not checked"];
}

function Writing() {
  const doc = useStore(draft, (d) => d.doc);
  const [broken, setBroken] = useState(null);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const editor = useRef();
  const check = useCheck(doc, null, "/v1/studies");
  const change = (next) => {
    draft.set({ doc: next });
    setFailure(null);
  };
  const submit = async () => {
    if (broken || busy) return;
    setBusy(true);
    setFailure(null);
    try {
      navigate(`/studies/${(await send("/v1/studies", doc)).id}`);
    } catch (error) {
      setFailure(error.message);
      setBusy(false);
    }
  };
  const keys = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    submit();
  };
  const [tone, words] = lampOf(check, broken);
  return (
    <div class="page new-job" onKeyDown={keys}>
      <div class="bar-top new-head"><h1>New study</h1></div>
      <section class="card" aria-label="The study as text">
        <div class="bar-top"><span class="dim">Examples:</span>
          {EXAMPLES.map((e) => <Button key={e.name} class="small" title={e.help} onClick={() => change(e.doc)}>{e.name}</Button>)}</div>
        <Editor doc={doc} json={pretty(doc)} change={change} broken={setBroken} handle={editor} what="study" hint="The examples run as they are; replace the job by yours." locked="" rows={40} />
      </section>
      <div class="stack side">
        <section class="card" aria-label="Check">
          <div class="submit-bar">
            {failure && <p class="note bad" role="alert">{failure}</p>}
            <div class="bar-top"><span class={`lamp ${tone}`} role="status"><i aria-hidden="true" />{words}</span><span class="spring" />
              <Button kind="primary" disabled={busy || !!broken || check.phase === "wrong"} aria-busy={busy} title="Ctrl+Enter" onClick={submit}>{busy ? "Starting…" : "Start"}</Button></div>
          </div>
          {check.phase === "unknown" && !broken && <p class="note warn" role="status">Not checked: {check.message}. <Button kind="quiet" class="small" onClick={check.retry}>Try again</Button></p>}
          {!broken && <ErrorList errors={check.errors} go={(pointer) => editor.current?.go(pointer)} what="the study" lineOf={(pointer) => editor.current?.lineOf(pointer)} />}
        </section>
        <section class="card" aria-label="Kinds of studies"><dl class="evidence">{EXAMPLES.map((e) => [<dt key={e.name}>{e.name}</dt>, <dd key={`${e.name} help`}>{e.help}</dd>])}</dl></section>
      </div>
    </div>
  );
}
