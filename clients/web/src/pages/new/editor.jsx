// A draft as text: a JSON editor, and for a job shell snippets.
import { useEffect, useImperativeHandle, useRef, useState } from "preact/hooks";
import { saveBlob } from "../../api.js";
import { fileName } from "../../params.js";
import { useQuery } from "../../router.js";
import { Button, CopyButton } from "../../ui/button.jsx";
import { TabPanel, Tabs } from "../../ui/tabs.jsx";
import { getAt, pretty } from "./document.js";
import { readJson } from "./jsonreader.js";
import { SNIPPETS } from "./snippets.js";

const TABS = [["json", "JSON"], ...Object.entries(SNIPPETS).map(([key, { name }]) => [key, name])];

// broken(error | null) reports syntax errors. `handle` gets {go(pointer)}, which selects that value, and {lineOf(pointer)}.
export function AsText({ doc, change, broken, handle }) {
  const [tab, setTab] = useQuery("as", "json");
  const json = pretty(doc);
  const shown = SNIPPETS[tab] ? tab : "json";
  return (
    <section class="card as-text" aria-label="The job as text">
      <Tabs label="The job as text" tabs={TABS} value={shown} onChange={setTab} />
      <TabPanel name={shown}>
        {shown === "json" ? <Editor doc={doc} json={json} change={change} broken={broken} handle={handle} /> : <Snippet text={SNIPPETS[shown].text(json, location.origin)} />}
      </TabPanel>
    </section>
  );
}

function Snippet({ text }) {
  return <><pre class="code">{text}</pre><CopyButton text={text} /></>;
}

// what: the document in words, for labels and messages. hint: below the text.
export function Editor({ doc, json, change, broken, handle, what = "job", hint = "Kept in sync with the form.", locked = " The form is locked until this is fixed.", rows = 30 }) {
  const [text, setText] = useState(json);
  const [error, setError] = useState(null);
  const area = useRef();
  const mine = useRef(json); // the document as written by this editor
  const set = (next) => {
    setError(next);
    broken(next);
  };
  const reset = () => {
    mine.current = json;
    setText(json);
    set(null);
  };
  useEffect(() => {
    if (json !== mine.current) reset();
  }, [json]);
  useEffect(() => () => broken(null), []);

  const input = (event) => {
    setText(event.currentTarget.value);
    const { value, error: fault } = readJson(event.currentTarget.value);
    const object = typeof value === "object" && value !== null && !Array.isArray(value);
    set(fault ?? (object ? null : { line: 1, column: 1, offset: 0, message: `a ${what} must be an object, { … }` }));
    if (!object) return;
    mine.current = pretty(value);
    change(value);
  };
  const select = (from, to) => {
    area.current.focus();
    area.current.setSelectionRange(from, to);
    const line = area.current.value.slice(0, from).split("\n").length;
    area.current.scrollTop = Math.max(0, (line - 4) * 19.5);
  };
  // [start, end] of the value at a pointer, or of the closest one above it.
  const placeIn = (pointer) => {
    const { at } = readJson(text);
    let place = pointer;
    while (place && !at?.has(place)) place = place.slice(0, place.lastIndexOf("/"));
    return at?.get(place);
  };
  useImperativeHandle(handle, () => ({
    go(pointer) {
      const found = placeIn(pointer);
      if (found) select(...found);
    },
    lineOf(pointer) {
      const found = placeIn(pointer);
      return found && text.slice(0, found[0]).split("\n").length;
    },
  }), [text]);

  return (
    <>
      <textarea ref={area} class="editor" aria-label={`The ${what} as JSON`} aria-invalid={!!error} aria-describedby="json-problem" wrap="off" spellcheck={false}
        rows={Math.max(12, Math.min(rows, text.split("\n").length + 1))} value={text} onInput={input} />
      <div id="json-problem" class="bar-top">
        {error ? (
          <>
            <span class="problem" role="alert">Line {error.line}, column {error.column}: {error.message}.{locked}</span>
            <Button kind="quiet" class="small" onClick={() => select(error.offset, error.offset + 1)}>Show</Button>
            <Button kind="quiet" class="small" onClick={reset}>Undo</Button>
          </>
        ) : <small class="dim">{hint}</small>}
        <span class="spring" />
        <CopyButton text={text} />
        <Button kind="quiet" class="small" disabled={!!error} onClick={() => saveBlob(new Blob([json + "\n"], { type: "application/json" }), `${fileName(String(getAt(doc, "/name") ?? what))}.json`)}>Save</Button>
      </div>
    </>
  );
}
