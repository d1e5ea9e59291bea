// The modules of the page that need no browser; test_page.py runs this file with node --test.
import assert from "node:assert/strict";
import { test } from "node:test";

const PAGE = new URL("../../../stepscope/viewer/page/", import.meta.url);
const { formatHash, parseHash, address, staticKey } = await import(new URL("data/address.js", PAGE));
const { decodeColumns } = await import(new URL("data/columns.js", PAGE));
const { places } = await import(new URL("charts/moving.js", PAGE));
const { logPlaces } = await import(new URL("charts/grid.js", PAGE));
const { smoothed } = await import(new URL("charts/smoothing.js", PAGE));
const { extended, extremes, lineOf, nearest, placesOf } = await import(new URL("charts/line.js", PAGE));
const { alone, cells, union } = await import(new URL("charts/joined.js", PAGE));
const { divisorOf, drawable, logHeights } = await import(new URL("charts/heights.js", PAGE));
const { barPixels, spread } = await import(new URL("histograms/spread.js", PAGE));
const { csvOf } = await import(new URL("charts/files.js", PAGE));
const { Catalogue, groupOf, matcher } = await import(new URL("charts/catalogue.js", PAGE));
const { clockTexts, durationText, durationTexts, numberText, stepText, tickText } = await import(new URL("text/format.js", PAGE));
const { axesOf, columnsOf } = await import(new URL("compare/columns.js", PAGE));
const { toldApart } = await import(new URL("shell/run_names.js", PAGE));
const { shortened } = await import(new URL("dom.js", PAGE));
const { nameText, visible } = await import(new URL("text/visible.js", PAGE));
const { Turns, staticSource } = await import(new URL("data/source.js", PAGE));

const points = (step, value) => lineOf({ meta: { form: "points" }, columns: { step: Float64Array.from(step), time_ms: Float64Array.from(step, (one) => 1000 * one), value: Float64Array.from(value) } });

test("a hash is read back as it was written", () => {
  const state = { view: "charts", runs: ["a1", "b2"], params: new URLSearchParams({ search: "/lo+ss&=%/", zoom: "0,500", pin: '["a,b"]' }) };
  const read = parseHash(formatHash(state));
  assert.deepEqual([read.view, read.runs, [...read.params]], [state.view, state.runs, [...state.params]]);
  assert.deepEqual(parseHash("").runs, null);
  assert.deepEqual(parseHash("#/charts?runs=").runs, []);
});

test("an address leaves out what is empty and keeps any name", () => {
  const name = "a&b=c?#/ü<img>";
  assert.equal(new URLSearchParams(address("series", { run: "k", name, first: null, rank: "" }).split("?")[1]).get("name"), name);
  assert.equal(address("runs"), "runs");
});

test("an export's key has neither a range nor an order", () => {
  assert.equal(staticKey("series?name=a%20b&run=k&first=1&last=2&width=9&since=3&rank=0"), staticKey("series?run=k&name=a+b"));
  assert.notEqual(staticKey("series?run=k&name=a&rank=1"), staticKey("series?run=k&name=a"));
});

test("an export answers as a server does", async () => {
  const source = staticSource({ "runs": ["application/json", "text", '{"runs": []}'], "image?run=k&step=1": ["image/png", "base64", "AAAA"] });
  assert.deepEqual(await source.json("runs"), { runs: [] });
  assert.equal(source.url("image?step=1&run=k"), "data:image/png;base64,AAAA");
  await assert.rejects(source.json("verdict?run=k"), /left out what .*verdict/);
});

test("columns that are cut off or of an unknown kind are named", () => {
  const wire = (header, rest) => {
    const text = new TextEncoder().encode(JSON.stringify(header));
    const bytes = new Uint8Array(Math.ceil((4 + text.length) / 8) * 8 + rest);
    new DataView(bytes.buffer).setUint32(0, text.length, true);
    bytes.set(text, 4);
    return bytes.buffer;
  };
  const header = (dtype) => ({ meta: {}, columns: [{ name: "x", dtype, shape: [2] }] });
  assert.deepEqual([...decodeColumns(wire(header("float64"), 16)).columns.x], [0, 0]);
  assert.throws(() => decodeColumns(wire(header("float64"), 8)), /cut off in x/);
  assert.throws(() => decodeColumns(wire(header("int64"), 16)), /dtype int64/);
  assert.throws(() => decodeColumns(new ArrayBuffer(2)), /2 bytes/);
});

test("smoothing is TensorBoard's, passes over what is not finite, and leaves a constant as it is", () => {
  const [weight, values] = [0.6, [1, NaN, 3, 2]];
  const steady = [1, (0.4 * 0.6 * 1 + 0.4 * 3) / (1 - 0.6 ** 2)];
  const third = (0.6 * (0.4 * 0.6 * 1 + 0.4 * 3) + 0.4 * 2) / (1 - 0.6 ** 3);
  const result = smoothed(values, weight);
  assert.ok(Number.isNaN(result[1]));
  for (const [at, wanted] of [[0, steady[0]], [2, steady[1]], [3, third]]) assert.ok(Math.abs(result[at] - wanted) < 1e-12);
  assert.deepEqual([...smoothed([5, 5, 5], 0.9)], [5, 5, 5]);
  assert.deepEqual([...smoothed([1, 2], 0)], [1, 2]);
});

test("NaN and infinities are gaps with a mark", () => {
  const line = points([0, 1, 2, 3], [1, NaN, Infinity, -Infinity]);
  assert.deepEqual(line.bad.map(({ index, nan, pinf, ninf }) => [index, nan, pinf, ninf]), [[1, 1, 0, 0], [2, 0, 1, 0], [3, 0, 0, 1]]);
  assert.deepEqual(extremes(line), { least: 1, most: 1, last: 1 });
});

test("ranges keep their extremes, and new points continue them", () => {
  const column = (...numbers) => Float64Array.from(numbers);
  const ranges = lineOf({ meta: { form: "ranges" }, columns: { step: column(0, 64), time_ms: column(0, 64), mean: column(1, 2), min: column(-9, 0), max: column(9, 3), nan: column(0, 2), last_step: column(63, 127), last: column(1, 5) } });
  assert.deepEqual(ranges.end, { step: 127, value: 5 });
  assert.deepEqual(extremes(ranges), { least: -9, most: 9, last: 2 });
  const longer = extended(ranges, points([128, 129], [7, NaN]));
  assert.deepEqual([...longer.step], [0, 64, 128, 129]);
  assert.equal(longer.end.step, 129);
  assert.deepEqual([...longer.high.slice(0, 3)], [9, 3, 7]);
  assert.deepEqual(longer.bad.map(({ index }) => index), [1, 3]);
  assert.deepEqual([...extended(points([0, 1, 2], [1, 2, 3]), points([1, 2], [8, 9])).value], [1, 8, 9]);
});

test("times that repeat ascend on the axis", () => {
  const line = points([0, 1, 2], [1, 1, 1]);
  line.time.set([5000, 5000, 5000]);
  const [first, second, third] = placesOf(line, "relative", 4000);
  assert.ok(first === 1 && first < second && second < third && third < 1.001);
});

test("lines of several runs share one axis", () => {
  const { x, at } = union([[0, 2, 4], [1, 2]]);
  assert.deepEqual(x, [0, 1, 2, 4]);
  assert.deepEqual(cells([1, NaN, 3], at[0], 4, false), [1, undefined, null, 3]);
  assert.deepEqual(cells([-1, 5], at[1], 4, true), [undefined, null, 5, undefined]);
  assert.deepEqual([nearest([0, 10, 20], 14), nearest([0, 10, 20], 99), nearest([], 1)], [1, 2, -1]);
});

test("a search is of words in any order or an expression", () => {
  const { found } = matcher("LOSS train");
  assert.deepEqual(["train/loss", "val/loss"].map(found), [true, false]);
  assert.deepEqual(["train/loss", "val/loss"].map(matcher("/^(train|test)/").found), [true, false]);
  assert.match(matcher("/(/").error, /no regular expression/);
  assert.deepEqual(["a/b/c", "loss", "/x"].map(groupOf), ["a", "", ""]);
});

test("a file reads back as the numbers", () => {
  const answer = { columns: { step: [0, 1], time_ms: [5, 6], value: [0.1, NaN] } };
  assert.equal(csvOf('a,"b"', [{ run: "r", answer }]), 'run,name,step,time_ms,value,min,max\nr,"a,""b""",0,5,0.1,,\nr,"a,""b""",1,6,nan,,\n');
});

test("texts are short and telling", () => {
  assert.deepEqual([Number.MAX_VALUE, -Number.MAX_VALUE].map(numberText), ["1.798e+308", "-1.798e+308"]);
  assert.deepEqual([0, 1234567, 1.23456789, 1e-7, 20271234.5, NaN, -Infinity, null].map(numberText), ["0", "1234567", "1.2346", "1e-7", "2.027e+7", "NaN", "−∞", "–"]);
  assert.deepEqual([0, -0.5, 800000, 2000000, -15e6, 0.1 + 0.2, 3e-5].map(tickText), ["0", "-0.5", "800000", "2e6", "-1.5e7", "0.3", "3e-5"]);
  assert.equal(shortened("layers.".padEnd(4096, "x"), 21).length, 21);
  assert.ok(!/\p{Surrogate}/u.test(shortened("😀".repeat(50), 20)));
});

test("durations have no 60th second or minute, and those of an axis differ", () => {
  assert.deepEqual([0.0625, 59.96, 119.7, 3599.6, 7199.6, 86399, 90000].map(durationText), ["63 ms", "1 min 0 s", "2 min 0 s", "1 h 0 min", "2 h 0 min", "1 d 0 h", "1 d 1 h"]);
  assert.deepEqual(durationTexts([0, 60, 120]), ["0 ms", "1 min 0 s", "2 min 0 s"]);
  assert.deepEqual(durationTexts([0.06, 0.0602, 0.0604]), ["60.0 ms", "60.2 ms", "60.4 ms"]);
  assert.deepEqual(durationTexts([12.342, 12.344, 12.346]), ["12.342 s", "12.344 s", "12.346 s"]);
  assert.deepEqual(durationTexts([7190, 7200, 7210]), ["1:59:50", "2:00:00", "2:00:10"]);
  assert.deepEqual(durationTexts([3599.5, 3600, 3600.5]), ["0:59:59.5", "1:00:00.0", "1:00:00.5"]);
  assert.deepEqual(durationTexts([90000, 91200, 92400]), ["25 h 0 min", "25 h 20 min", "25 h 40 min"]);
});

test("times of the clock at an axis differ and are as short as they can be", () => {
  const at = (...parts) => new Date(2026, 10, 27, ...parts).getTime() / 1000;
  const texts = (from, apart) => clockTexts([0, 1, 2].map((place) => from + place * apart));
  assert.deepEqual(texts(at(9, 27, 30), 5e-4), [":30.0000", ":30.0005", ":30.0010"]);
  assert.deepEqual(texts(at(9, 27, 59), 0.5), ["09:27:59.0", "09:27:59.5", "09:28:00.0"]);
  assert.deepEqual(texts(at(9, 27, 59), 0.25), ["09:27:59.00", "09:27:59.25", "09:27:59.50"]);
  assert.deepEqual(texts(at(9, 27, 58), 1), ["09:27:58", "09:27:59", "09:28:00"]);
  assert.deepEqual(texts(at(9, 58), 60), ["09:58", "09:59", "10:00"]);
  assert.deepEqual(texts(at(18), 6 * 3600), ["18:00", "Nov 28", "06:00"]);
  assert.deepEqual(texts(at(0), 86_400), ["Nov 27", "Nov 28", "Nov 29"]);
  assert.deepEqual(clockTexts([at(9, 27, 30)]), ["09:27:30"]);
  assert.deepEqual(clockTexts([]), []);
});

test("a group that is called as the pinned ones is another one", async () => {
  const names = ["Pinned/loss", "Pinned", "loss"].map((name) => ({ name, kind: "scalar", count: 1, last_step: 0, last_value: 1 }));
  const catalogue = new Catalogue({ json: async () => ({ position: "1", names }) });
  await catalogue.load({ key: "k", rank: null, id: "k" });
  const groups = catalogue.groups(() => true, new Set(["loss", "Pinned/loss"]));
  assert.deepEqual(groups.map(({ title, entries }) => [title, entries.map(({ name }) => name)]), [
    ["Pinned", ["loss", "Pinned/loss"]], ["", ["loss", "Pinned"]], ["Pinned", ["Pinned/loss"]],
  ]);
  assert.equal(new Set(groups.map(({ key }) => key)).size, 3);
});

test("of many numbers the axes are settings, and what came of them", () => {
  const row = (size) => ({ config: { name: "text", ...Object.fromEntries(Array.from({ length: 12 }, (_, place) => [`s${place}`, size])) }, metrics: { loss: { last: size }, accuracy: { last: size }, f1: { last: "NaN" }, lr: { last: size } } });
  const rows = [row(1), row(2)];
  const columns = columnsOf(rows, "last");
  const titles = (columns, room) => axesOf(columns, rows, room).map(({ title }) => title);
  assert.deepEqual(titles(columns, 5), ["s0", "s1", "s2", "loss", "accuracy"]);
  assert.deepEqual(titles(columns.filter(({ title }) => !/s[^0]/.test(title) || title === "loss"), 5), ["s0", "loss", "accuracy", "lr"]);
  assert.deepEqual(titles(columns.filter(({ kind }) => kind !== "metric"), 3), ["s0", "s1", "s2"]);
  assert.deepEqual(titles([], 3), []);
});

test("runs of one name are told apart by their folders", () => {
  const names = (...folders) => toldApart(folders.map((folder) => ({ name: folder.split("/").at(-1), folder }))).map(({ name }) => name);
  assert.deepEqual(names("/r/a/exp", "/r/b/exp", "/r/other"), ["a/exp", "b/exp", "other"]);
  assert.deepEqual(names("/r/1/x/exp", "/r/2/x/exp", "/r/2/y/exp"), ["1/x/exp", "2/x/exp", "2/y/exp"]);
  assert.deepEqual(names("/r/exp", "s3://bucket/r/exp"), ["r/exp", "bucket/r/exp"]);
  assert.deepEqual(toldApart([{ name: "sweep", folder: "/r/1" }, { name: "sweep", folder: "/r/2" }]).map(({ name }) => name), ["sweep (1)", "sweep (2)"]);
  assert.deepEqual(toldApart([{ name: "x", folder: "/r" }, { name: "x", folder: "/r" }]).map(({ name }) => name), ["x (r)", "x (r)"]);
});

test("points between gaps are alone, whatever other lines have there", () => {
  const [gap, other] = [null, undefined];
  assert.deepEqual(alone([1, gap, 2, gap, 3, 4, gap, other, 5, other, gap, 6]), [0, 2, 8, 11]);
  assert.deepEqual(alone([gap, 1, other, 2]), []);
  assert.deepEqual(alone([]), []);
});

test("who gives up while waiting takes no turn", async () => {
  const turns = new Turns(1);
  await turns.take();
  const giving = new AbortController();
  const first = turns.take(giving.signal);
  const second = turns.take();
  giving.abort();
  await assert.rejects(first, { name: "AbortError" });
  turns.give();
  await second;
  turns.give();
  assert.equal(turns.free, 1);
});

test("an axis never shows less than its ticks can tell apart", () => {
  for (const [low, high] of [[2 ** 53, 2 ** 53 + 4], [2 ** 62, 2 ** 62], [0, 0], [7, 7], [-1e300, -1e300], [5e-324, 5e-324]]) {
    const [from, to] = places(low, high);
    const tick = (to - from) / 1000;
    assert.ok(from < to && from <= low && high <= to && from + tick > from && to + tick > to, `${low} to ${high}: ${from} to ${to}`);
  }
  assert.deepEqual(places(3, 3), [2.5, 3.5]);
  assert.deepEqual(places(0, 1e9), [0, 1e9]);
});

test("a logarithmic axis has as many lines as there is room for, at the ends of the numbers too", () => {
  assert.deepEqual(logPlaces(3, 7), [3, 4, 5, 6, 7]);
  assert.deepEqual(logPlaces(0.02, 1), [0.02, 0.05, 0.1, 0.2, 0.5, 1]);
  assert.deepEqual(logPlaces(0.002, 10), [0.01, 0.1, 1, 10]);
  for (const [low, high] of [[1e-300, 1e300], [1e-40, 3e-39], [1e-300, 1e-10], [1, 1e40], [5e37, 1e300]]) {
    const places = logPlaces(low, high);
    assert.ok(places.length >= 2 && places.length <= 10 && places.every((place) => place >= low && place <= high), `${places}`);
  }
});

test("on a logarithmic axis the ends of the numbers are drawn where there are ticks", () => {
  const drawn = (...values) => drawable([cells(values, Int32Array.from(values.keys()), values.length, true)], true);
  assert.deepEqual(drawn(5e-324, 0, -1, NaN, 2).columns, [[1e-300, null, null, null, 2]]);
  for (const values of [[1e299, 1e301, Number.MAX_VALUE], [5e-324, 1e-310, 1e-299]]) {
    const { divisor, columns: [column] } = drawn(...values);
    assert.deepEqual(column.map((one) => Math.round(Math.log10(one) + Math.log10(divisor))), values.map((one) => Math.round(Math.log10(one))));
    assert.ok(logPlaces(...logHeights(column[0], column[2])).length >= 2);
  }
});

test("what cannot be seen in a name is shown, and what a person writes stays", () => {
  assert.equal(nameText("loss\u202efdp.exe"), "loss⟨U+202E⟩fdp.exe");
  assert.equal(nameText("  a   b\u00a0\t"), "␣␣a ␣␣b⟨U+00A0⟩⟨U+0009⟩");
  assert.equal(nameText(" "), "␣");
  assert.equal(nameText("a\u200bb\ufeff\x1b[31m"), "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+001B⟩[31m");
  for (const name of ["train/loss of x", "دقة", "می\u200cخواهم", "👩\u200d👧", "精度"]) assert.equal(nameText(name), name);
  assert.equal(visible("two\n\tlines  here \u2066"), "two\n\tlines  here ⟨U+2066⟩");
});

test("a step beyond the integers of a browser is called approximate", () => {
  assert.deepEqual([0, 1234, 2 ** 53 - 1, 2 ** 53].map(stepText), ["0", "1,234", "9,007,199,254,740,991", "≈ 9,007,199,254,740,992"]);
});

test("very small values are multiplied", () => {
  for (const largest of [5e-324, 1e-310, 1e-40]) {
    const size = largest / divisorOf([[largest, null, 0]]);
    assert.ok(size > 1e-25 && size < 1e8);
  }
  assert.equal(divisorOf([[0, null], [NaN]]), 1);
});

test("very large values are divided so that their range can be drawn, and others are left as they are", () => {
  assert.equal(divisorOf([[0, 1e24, null, undefined, NaN], [-1e24]]), 1);
  for (const largest of [1e25, 1e100, Number.MAX_VALUE]) {
    const divisor = divisorOf([[1, null], [NaN, -largest, 0]]);
    assert.ok(largest / divisor >= 1e5 && largest / divisor < 1e8);
    assert.match(Number(divisor.toPrecision(12)).toExponential(), /^1e/);
  }
});

test("few elements of a histogram are bars, not scattered lines", () => {
  const axis = { place: (value) => value / 100, ticks: [] };
  const histogram = (bins, each, zero_bin = -1) => {
    const [low, high] = [bins.indexOf(bins.find(Boolean)), bins.findLastIndex(Boolean) + 1];
    return { rows: 1, wide: 100, meta: { zero_bin }, columns: { count: [each * bins.filter(Boolean).length], bins: bins.map((one) => one * each), edges: Array.from({ length: 101 }, (_, edge) => edge), min: [low], max: [high] } };
  };
  const every = (start, end, step) => Array.from({ length: 100 }, (_, place) => +(place >= start && place < end && (place - start) % step === 0));
  const few = histogram(every(20, 61, 4), 1); // 11 elements from 20 to 61
  assert.equal(barPixels(11, 100), 8);
  const bars = spread(few, 0, axis, 100);
  assert.ok(bars.every((share, pixel) => share > 0 === (pixel >= 20 && pixel < 61)), "only within the range, and there without a gap");
  assert.equal(new Set(bars.slice(24, 32)).size, 1);
  const many = histogram(every(20, 61, 4), 1e6);
  assert.equal(barPixels(11e6, 100), 1);
  assert.deepEqual([...spread(many, 0, axis, 100)].map(Math.ceil), every(20, 61, 4));
  const zeros = histogram(every(20, 61, 4), 1, 40);
  zeros.columns.bins[40] = 50;
  const shown = spread(zeros, 0, axis, 100);
  assert.ok(shown[40] === 1 && shown[41] < 1 && shown[39] < 1, "zeros stay in their bin");
  assert.ok(Math.max(...shown.filter((_, pixel) => pixel !== 40)) === 1, "and the others set the scale");
});
