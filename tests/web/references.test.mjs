import assert from "node:assert/strict";
import { referenceKeys, referencePath } from "../../clients/web/src/references.js";

export default {
  "the key of a reference includes the owner if several have the same name": () => {
    const items = [{ name: "a", owner: "ana" }, { name: "a", owner: "ben" }, { name: "b", owner: "ben" }];
    assert.deepEqual(referenceKeys(items).map(([key]) => key), ["ana/a", "ben/a", "b"]);
    assert.equal(referencePath("ana/a"), "/v1/references/ana/a");
    assert.equal(referencePath("b"), "/v1/references/b");
  },
};
