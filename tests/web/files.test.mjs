import assert from "node:assert/strict";
import { ApiError } from "../../clients/web/src/api.js";
import { filesOf } from "../../clients/web/src/pages/job/files.js";

const job = (fields) => ({ id: "01ab", name: "a b", ended_at: "2026-01-01T00:00:00Z", progress: { chains: [{ chain: 1, iteration: 900 }, { chain: 2, iteration: 700 }] }, ...fields });

const NPY = { name: "npy", ending: "npy", one_chain: false };
const STAN = { name: "stan", ending: "csv", one_chain: true };

export default {
  "most formats are one file of all chains": () =>
    assert.deepEqual(filesOf(job(), NPY).map((file) => file.url), ["/v1/jobs/01ab/draws?format=npy"]),
  "formats with one chain per file give one file per chain": () => {
    const files = filesOf(job(), STAN);
    assert.deepEqual(files.map((file) => file.url), ["/v1/jobs/01ab/draws?format=stan&chains=1", "/v1/jobs/01ab/draws?format=stan&chains=2"]);
    assert.deepEqual(files.map((file) => file.name.match(/01ab_\d\.csv$/)?.[0]), ["01ab_1.csv", "01ab_2.csv"]);
  },
  "chains of a running job end together": () =>
    assert.ok(filesOf(job({ ended_at: null }), STAN).every((file) => file.url.endsWith("&to=700"))),
  "the message of a refused request is its list of errors, not the general sentence": () => {
    const problem = { title: "a value is not allowed", detail: "1 mistake", errors: [{ pointer: "?chains", detail: "choose one" }] };
    assert.equal(new ApiError(422, problem).message, "?chains: choose one");
    assert.equal(new ApiError(409, { title: "no", detail: "it runs" }).message, "it runs");
  },
};
