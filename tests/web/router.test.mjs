import assert from "node:assert/strict";
import { makeHash, match, parseHash } from "../../clients/web/src/router.js";
import { fileName, splitNames } from "../../clients/web/src/params.js";
import { address } from "../../clients/web/src/api.js";

export default {
  "a hash survives being parsed and written": () => {
    for (const hash of ["#/jobs", "#/jobs/06c?tab=traces&params=theta[1],U[3,7]", "#/jobs?q=a+b%26c"]) {
      const { path, query } = parseHash(hash);
      assert.equal(makeHash(path, query), hash);
    }
  },
  "an empty hash is the start page": () => {
    for (const hash of ["", "#", "#/"]) assert.deepEqual(parseHash(hash), { path: "/", query: {} });
  },
  "empty values are omitted": () => assert.equal(makeHash("/jobs", { q: "", state: undefined, tag: null }), "#/jobs"),
  "paths match segment by segment": () => {
    assert.deepEqual(match("/jobs/:id", "/jobs/06c%20x"), { id: "06c x" });
    for (const path of ["/jobs", "/jobs/", "/jobs/a/b", "/job/a"]) assert.equal(match("/jobs/:id", path), null, path);
    assert.deepEqual(match("/jobs/:id", "/jobs/%"), { id: "%" }, "a broken escape is taken as it is");
  },
  "commas inside brackets belong to a name": () => {
    assert.deepEqual(splitNames("theta[1],U[3,7], W[2,5] ,mu"), ["theta[1]", "U[3,7]", "W[2,5]", "mu"]);
    assert.deepEqual(splitNames(""), []);
  },
  "queries are escaped and lists joined": () => {
    assert.equal(address("/v1/x", { params: ["theta[1]", "U[3,7]"], q: "a&b", none: "", nil: null }), "/v1/x?params=theta%5B1%5D%2CU%5B3%2C7%5D&q=a%26b");
    assert.equal(address("/v1/x", { limit: 0 }), "/v1/x?limit=0");
  },
  "file names contain only characters that are safe in a shell and on disk": () => {
    assert.equal(fileName("../<script>alert(1)</script>"), ".._script_alert_1_script");
    assert.equal(fileName("///"), "plot");
  },
};
