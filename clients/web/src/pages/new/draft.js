// The draft of a new job survives a change of page: kept in sessionStorage, like the token.
import { createStore, session } from "../../store.js";

const KEY = "barkerd.draft";
const NOTHING = { doc: null, from: null, origin: null, auto: [] };

// doc: the document; from: id of the cloned job; origin: the initial doc, as text; auto: names of the settings
// that were automatic in the original.
export const draft = createStore({ ...NOTHING, ...restore() });

export function begin(doc, from = null, auto = []) {
  draft.set({ doc, from, origin: JSON.stringify(doc), auto });
}

export const forget = () => draft.set(NOTHING);
export const untouched = ({ doc, origin }) => doc === null || JSON.stringify(doc) === origin;

draft.watch(() => {
  try {
    if (draft.get().doc) sessionStorage.setItem(KEY, JSON.stringify(draft.get()));
    else sessionStorage.removeItem(KEY);
  } catch {
    // full or blocked: the draft lasts until the page is reloaded
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
