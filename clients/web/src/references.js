// [[key, reference], …]: the key identifies the reference in a request. It is the name, or owner/name if several
// references have the same name.
export function referenceKeys(items) {
  const times = {};
  for (const r of items) times[r.name] = (times[r.name] ?? 0) + 1;
  return items.map((r) => [times[r.name] > 1 ? `${r.owner}/${r.name}` : r.name, r]);
}

export const referencePath = (key) => `/v1/references/${key.split("/").map(encodeURIComponent).join("/")}`;
