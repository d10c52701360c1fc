// The job that is being written outlives a visit to another page: kept for the tab, like the token.
import { createStore, session } from "../../store.js";

const KEY = "barkerd.draft";
const NOTHING = { doc: null, from: null, origin: null, open: [] };

// doc: the document; from: the job that it was cloned from; origin: doc as it was at first, as text; open: names of
// what the original had left to the daemon.
export const draft = createStore({ ...NOTHING, ...restore() });

export function begin(doc, from = null, open = []) {
  draft.set({ doc, from, origin: JSON.stringify(doc), open });
}

export const forget = () => draft.set(NOTHING);
export const untouched = ({ doc, origin }) => doc === null || JSON.stringify(doc) === origin;

draft.watch(() => {
  try {
    if (draft.get().doc) sessionStorage.setItem(KEY, JSON.stringify(draft.get()));
    else sessionStorage.removeItem(KEY);
  } catch {
    // full or forbidden: it lasts as long as the page
  }
});
session.watch(() => session.get().token || !draft.get().doc || forget());

function restore() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}
