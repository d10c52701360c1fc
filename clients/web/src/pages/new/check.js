// What the daemon says about the job, a moment after the last change: mistakes, or what it will cost.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../api.js";
import { useEvents } from "../../live.js";
import { nameOf } from "./document.js";

const PAUSE_MS = 350;

// {phase: checking | valid | wrong | unknown, result, errors, message}. Old errors and results stay
// while new ones are on their way, so that nothing flickers under one's hands.
// `known`: mistakes that need no asking, of an empty form.
export function useCheck(doc, known = null) {
  const [state, setState] = useState({ phase: "checking", result: null, errors: [], message: "" });
  const [again, setAgain] = useState(0);
  const text = JSON.stringify(doc);
  const first = useRef(true);
  useEffect(() => {
    const controller = new AbortController();
    if (known) {
      setState((old) => ({ ...old, phase: "wrong", errors: known, message: "" }));
      return undefined;
    }
    setState((old) => ({ ...old, phase: "checking" }));
    const timer = setTimeout(async () => {
      try {
        const result = await api.post("/v1/jobs?validate_only=true", JSON.parse(text), { signal: controller.signal });
        setState({ phase: "valid", result, errors: [], message: "" });
      } catch (error) {
        if (error.name === "AbortError") return;
        const wrong = error.errors?.length > 0;
        setState((old) => ({ ...old, phase: wrong ? "wrong" : "unknown", errors: wrong ? error.errors : [], message: error.message }));
      }
    }, first.current ? 0 : PAUSE_MS);
    first.current = false;
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text, again]);
  useEvents((type) => type === "reset" && setAgain((n) => n + 1));
  return { ...state, retry: () => setAgain((n) => n + 1) };
}

// The defaults that the daemon filled in, as far as they still stand: those of the same model and sampler.
export function resolvedFor(doc, result) {
  const job = result?.job;
  return job && nameOf(doc.model) === nameOf(job.model) && nameOf(doc.sampler) === nameOf(job.sampler) ? job : null;
}
