// The files of one download of draws.
import { fileName } from "../../params.js";

// One file, or one per chain if the format (an entry of draws_formats of GET /v1/info) has one chain per file. Readers
// need chains of equal length, so the files of a running job end at the iteration of its slowest chain.
export function filesOf(job, { name: format, ending, one_chain: oneChain }) {
  const url = `/v1/jobs/${job.id}/draws?format=${format}`, name = `${fileName(job.name)}-${job.id}`;
  if (!oneChain) return [{ url, name: `${name}.${ending}` }];
  const { chains } = job.progress;
  const end = job.ended_at ? "" : `&to=${Math.min(...chains.map((c) => c.iteration))}`;
  return chains.map(({ chain }) => ({ url: `${url}&chains=${chain}${end}`, name: `${name}_${chain}.${ending}` }));
}
