// The interface between the fields and the draft.
import { getAt, isMissing, errorsAt, setAt, showText } from "./document.js";

// The first error of a field, or null. Missing values are not reported before the first attempt to submit.
function problemOf(doc, errors, tried, pointer, inside) {
  const mine = errorsAt(errors, pointer, inside).filter((e) => tried || !isMissing(doc, e));
  if (!mine.length) return null;
  const where = mine[0].pointer.slice(pointer.length + 1);
  return (where ? `${/^\d+$/.test(where) ? `item ${Number(where) + 1}` : where}: ` : "") + mine[0].detail + (mine.length > 1 ? ` (and ${mine.length - 1} more)` : "");
}

// change(doc) is called with the new document.
export function makeForm({ doc, change, errors, tried, resolved, estimate }) {
  return {
    doc,
    dimension: estimate?.dimension,
    get: (at) => getAt(doc, at),
    set: (at, value) => change(setAt(doc, at, value)),
    change,
    problem: (at, inside = true) => problemOf(doc, errors, tried, at, inside),
    // The resolved default, for placeholders.
    fallback: (at) => (resolved ? showText(getAt(resolved, at)) : ""),
  };
}
