// Validation of a draft, of a job or a study, by the daemon, shortly after the last change: errors, or an estimate of the cost.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../../api.js";
import { useEvents } from "../../live.js";
import { nameOf } from "./document.js";

const PAUSE_MS = 350;

// {phase: checking | valid | wrong | unknown, result, errors, message}. Old errors and results stay during a
// check, so that the page does not flicker. `known`: errors of an empty form, which need no request.
export function useCheck(doc, known = null, path = "/v1/jobs") {
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
        const result = await api.post(`${path}?validate_only=true`, JSON.parse(text), { signal: controller.signal });
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

// The job with its defaults as the daemon resolved them, if model and sampler have not changed since.
export function resolvedFor(doc, result) {
  const job = result?.job;
  return job && nameOf(doc.model) === nameOf(job.model) && nameOf(doc.sampler) === nameOf(job.sampler) ? job : null;
}
