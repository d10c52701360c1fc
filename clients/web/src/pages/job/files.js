// The files that a download of draws consists of.
import { fileName } from "../../params.js";

// One, or one per chain where a file of the format (an entry of draws_formats of GET /v1/info) holds one chain. Readers
// want equally long chains: those of a running job end where the slowest chain is.
export function filesOf(job, { name: format, ending, one_chain: oneChain }) {
  const url = `/v1/jobs/${job.id}/draws?format=${format}`, name = `${fileName(job.name)}-${job.id}`;
  if (!oneChain) return [{ url, name: `${name}.${ending}` }];
  const { chains } = job.progress;
  const end = job.ended_at ? "" : `&to=${Math.min(...chains.map((c) => c.iteration))}`;
  return chains.map(({ chain }) => ({ url: `${url}&chains=${chain}${end}`, name: `${name}_${chain}.${ending}` }));
}
