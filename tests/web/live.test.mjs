import assert from "node:assert/strict";
import { eventClock, parseBlock, putChange, putJobs, readEvents } from "../../clients/web/src/live.js";
import { jobs } from "../../clients/web/src/store.js";

// A reader of a stream that arrives in these pieces.
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

const hear = (data) => readEvents(reader([`id: 1\nevent: job.state\ndata: ${JSON.stringify(data)}\n\n`]), () => {});

const stateOf = (id) => jobs.get().byId[id]?.state;

const changed = () => new Promise((done) => {
  const stop = jobs.watch(() => {
    stop();
    done();
  });
});

export default {
  "an event has id, type and data": () =>
    assert.deepEqual(parseBlock('id: 17\nevent: job.state\ndata: {"id":"a"}'), { id: "17", type: "job.state", data: '{"id":"a"}' }),
  "a comment is not an event": () => assert.equal(parseBlock(":ok\nretry: 3000"), null),
  "events are complete wherever the stream is split": async () => {
    const text = ':ok\nretry: 3000\n\nid: 1\nevent: a\ndata: {"x":"é"}\n\n: heartbeat\n\nid: 2\nevent: b\ndata: {}\n\n';
    const all = new TextEncoder().encode(text);
    for (let size = 1; size <= all.length; size++) {
      const pieces = [];
      for (let at = 0; at < all.length; at += size) pieces.push(all.slice(at, at + size));
      const { seen } = await events(pieces);
      assert.deepEqual(seen.map((e) => [e.id, e.type, e.data]), [["1", "a", '{"x":"é"}'], ["2", "b", "{}"]], `pieces of ${size}`);
    }
  },
  "an incomplete event is ignored": async () => assert.equal((await events(["id: 1\nevent: a\ndata: {}\n"])).seen.length, 0),
  "a list older than an event does not undo the event": async () => {
    const sentAt = eventClock();
    await hear({ id: "a", state: "succeeded", progress: 1 });
    putJobs([{ id: "a", name: "first", state: "running", progress: 0.5 }, { id: "b", state: "running" }], sentAt);
    assert.deepEqual(jobs.get().byId.a, { id: "a", name: "first", state: "succeeded", progress: 1 });
    assert.equal(stateOf("b"), "running");
    putJobs([{ id: "a", state: "queued", progress: 0 }], eventClock());
    assert.deepEqual(jobs.get().byId.a, { id: "a", state: "queued", progress: 0 }, "sentAt since, the answer stands");
  },
  "only fields changed by events after the request win over the reply": async () => {
    await hear({ id: "c", state: "running", progress: 0.25 });
    const sentAt = eventClock();
    await hear({ id: "c", state: "paused" });
    putJobs([{ id: "c", state: "running", progress: 0.5 }], sentAt);
    assert.deepEqual(jobs.get().byId.c, { id: "c", state: "paused", progress: 0.5 });
  },
  "the reply to an action, if older than an event, does not undo the event": async () => {
    putJobs([{ id: "d", state: "running" }], eventClock());
    const sentAt = eventClock();
    await hear({ id: "d", state: "cancelled" });
    await changed();
    putChange({ id: "d", name: "fourth", state: "cancelling" }, sentAt);
    await changed();
    assert.deepEqual(jobs.get().byId.d, { id: "d", name: "fourth", state: "cancelled" });
  },
  "comments count as activity": async () => assert.equal((await events([": x\n\n", ": y\n\n"])).alive, 2),
};
