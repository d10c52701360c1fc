// Submits exactly once even if the connection breaks: retries use the same Idempotency-Key.
import { api } from "../../api.js";

const TRIES = 4;
let last = { text: "", key: "" };

function keyFor(text) {
  if (text !== last.text) last = { text, key: [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("") };
  return last.key;
}

// path: /v1/jobs or /v1/studies.
export async function submit(path, doc) {
  const key = keyFor(path + JSON.stringify(doc));
  for (let attempt = 1; ; attempt++) {
    try {
      const made = await api.post(path, doc, { headers: { "Idempotency-Key": key } });
      last = { text: "", key: "" }; // submitting the same document again makes another one
      return made;
    } catch (error) {
      if (error.status !== 0 || attempt === TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, 250 * 2 ** attempt));
    }
  }
}
