// The parameters drawn in a comparison: those in the URL, or else the first ones.
import { joinNames, splitNames } from "../../params.js";
import { useQuery } from "../../router.js";

const FIRST = 4, LIMIT = 12;

export function useShown(data) {
  const [text, setText] = useQuery("show");
  const given = splitNames(text).slice(0, LIMIT);
  const names = given.length ? given : data.parameters.slice(0, FIRST).map((p) => p.name);
  return [names, (next) => setText(joinNames(next), { replace: true })];
}
