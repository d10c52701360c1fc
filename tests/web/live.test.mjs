import assert from "node:assert/strict";
import { parseBlock, readEvents } from "../../clients/web/src/live.js";

// A stream that arrives in these pieces.
function reader(pieces) {
  const bytes = pieces.map((piece) => (typeof piece === "string" ? new TextEncoder().encode(piece) : piece));
  return { read: async () => (bytes.length ? { done: false, value: bytes.shift() } : { done: true }) };
}

async function events(pieces) {
  const seen = [];
  let alive = 0;
  await readEvents(reader(pieces), () => alive++, (event) => seen.push(event));
  return { seen, alive };
}

export default {
  "an event has id, type and data": () =>
    assert.deepEqual(parseBlock('id: 17\nevent: job.state\ndata: {"id":"a"}'), { id: "17", type: "job.state", data: '{"id":"a"}' }),
  "a comment is no event": () => assert.equal(parseBlock(":ok\nretry: 3000"), null),
  "events arrive whole however the stream is cut": async () => {
    const text = ':ok\nretry: 3000\n\nid: 1\nevent: a\ndata: {"x":"é"}\n\n: heartbeat\n\nid: 2\nevent: b\ndata: {}\n\n';
    const all = new TextEncoder().encode(text);
    for (let size = 1; size <= all.length; size++) {
      const pieces = [];
      for (let at = 0; at < all.length; at += size) pieces.push(all.slice(at, at + size));
      const { seen } = await events(pieces);
      assert.deepEqual(seen.map((e) => [e.id, e.type, e.data]), [["1", "a", '{"x":"é"}'], ["2", "b", "{}"]], `pieces of ${size}`);
    }
  },
  "an event that was cut off is not taken": async () => assert.equal((await events(["id: 1\nevent: a\ndata: {}\n"])).seen.length, 0),
  "every byte is a sign of life": async () => assert.equal((await events([": x\n\n", ": y\n\n"])).alive, 2),
};
