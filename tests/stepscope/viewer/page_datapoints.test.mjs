// What the views of datapoints and images compute without a browser; test_page.py runs this file with node --test.
import assert from "node:assert/strict";
import { test } from "node:test";

const PAGE = new URL("../../../stepscope/viewer/page/", import.meta.url);
const { EpochContents } = await import(new URL("views/datapoint_list.js", PAGE));
const { epochText } = await import(new URL("views/datapoint_epochs.js", PAGE));
const { ticks } = await import(new URL("parts/small_lines.js", PAGE));

const ALL = { show: "", label: "", debugger: "", sort: "", search: "" };

/** An epoch of four datapoints: right, wrong, a loss of NaN, and one that is not judged. */
async function epoch() {
  const answers = {
    datapoints: { datapoints: [10, 11, 12, 20], of_debugger: { maps: null, cam: [1, 3] } },
    judged: { errors: [], correct: [true, false, false, null], label: [0, 1, 1, null], prediction: [0, 2, null, null], loss: [0.1, 0.5, "NaN", null], margin: [0, 1.5, "NaN", null], failed: [[], [], [], ["cam"]] },
  };
  const source = { json: async (address) => answers[address.split("?")[0]] };
  const context = { source, signal: new AbortController().signal };
  const contents = new EpochContents(context, { run: { key: "k" }, key: "0.0" }, null);
  await contents.readList();
  await contents.readVerdicts();
  return contents;
}

test("datapoints are filtered by what is known of them", async () => {
  const contents = await epoch();
  const found = (filter) => contents.filtered({ ...ALL, ...filter }).map((at) => contents.datapoints[at]);
  assert.deepEqual(found({}), [10, 11, 12, 20]);
  assert.deepEqual(found({ show: "wrong" }), [11, 12]);
  assert.deepEqual(found({ show: "right" }), [10]);
  assert.deepEqual(found({ show: "unjudged" }), [20]);
  assert.deepEqual(found({ show: "failed" }), [20]);
  assert.deepEqual(found({ label: "1" }), [11, 12]);
  assert.deepEqual(found({ debugger: "cam" }), [11, 20]);
  assert.deepEqual(found({ search: "1" }), [10, 11, 12]);
  assert.match(contents.said, /2 of 3 judged are wrong/);
});

test("the worst come first: NaN before the largest loss, and what has none last", async () => {
  const contents = await epoch();
  assert.deepEqual(contents.filtered({ ...ALL, sort: "loss" }).map((at) => contents.datapoints[at]), [12, 11, 10, 20]);
  contents.changed = new Map([[20, 3], [10, 0.5]]);
  assert.deepEqual(contents.filtered({ ...ALL, sort: "changed" }).map((at) => contents.datapoints[at]), [20, 10, 11, 12]);
});

test("an epoch is called by its title, step and rank", () => {
  assert.equal(epochText({ title: "epoch_1", step: 20, rank: 0, count: 1 }), "epoch_1, step 20 (1 datapoint)");
  assert.equal(epochText({ title: "", step: 20, rank: 2, count: 1200 }), "step 20, rank 2 (1,200 datapoints)");
  assert.equal(epochText({ title: "epoch_0", step: null, rank: 0, count: 2 }), "epoch_0 (2 datapoints)");
});

test("ticks are round numbers inside the range", () => {
  assert.deepEqual(ticks([0, 1], 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks([-0.03, 0.07], 4), [0, 0.05]);
  assert.deepEqual(ticks([5, 1e6], 2), [500000, 1000000]);
});
