// The files that a download of draws consists of.
import { fileName } from "../../params.js";

export const FORMATS = {
  csv: ["CSV", "csv"], json: ["JSON", "json"], npy: ["NumPy", "npy"], stan: ["Stan CSV", "csv"], posteriordb: ["posteriordb", "json"], sqlite: ["SQLite, the whole job", "db"],
};

// One, but Stan's CSV holds one chain. Readers want equally long chains: those of a job on its way end
// where the slowest is.
export function filesOf(job, format) {
  const [, ending] = FORMATS[format] ?? [format, format];
  const url = `/v1/jobs/${job.id}/draws?format=${format}`, name = `${fileName(job.name)}-${job.id}`;
  if (format !== "stan") return [{ url, name: `${name}.${ending}` }];
  const { chains } = job.progress;
  const end = job.ended_at ? "" : `&to=${Math.min(...chains.map((c) => c.iteration))}`;
  return chains.map(({ chain }) => ({ url: `${url}&chains=${chain}${end}`, name: `${name}_${chain}.${ending}` }));
}
