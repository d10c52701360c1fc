// The interface between the fields and the draft.
import { getAt, isMissing, errorsAt, setAt, showText } from "./document.js";

// The first error of a field, or null. Missing values are not reported before the first attempt to submit.
function problemOf(doc, errors, tried, pointer, inside) {
  const mine = errorsAt(errors, pointer, inside).filter((e) => tried || !isMissing(doc, e));
  if (!mine.length) return null;
  const where = mine[0].pointer.slice(pointer.length + 1);
  return (where ? `${/^\d+$/.test(where) ? `item ${Number(where) + 1}` : where}: ` : "") + mine[0].detail + (mine.length > 1 ? ` (and ${mine.length - 1} more)` : "");
}

// change(doc) is called with the new document; fields: the items of GET /v1/fields.
export function makeForm({ doc, change, errors, tried, resolved, estimate, fields = [] }) {
  const field = (at) => fields.find((f) => f.pointer === at) ?? {};
  const defaultOf = (at) => field(at).default ?? undefined;
  return {
    doc,
    dimension: estimate?.dimension,
    get: (at) => getAt(doc, at),
    set: (at, value) => change(setAt(doc, at, value)),
    change,
    problem: (at, inside = true) => problemOf(doc, errors, tried, at, inside),
    field,
    // The default that no other field decides, or undefined.
    defaultOf,
    // Text for placeholders: the value that the daemon uses for an absent field, as far as it is known.
    fallback: (at) => showText((resolved && getAt(resolved, at)) ?? defaultOf(at)),
  };
}
