/** Images of a name at all their steps, several runs side by side, with a series below that marks the step. */
import { address } from "../data/address.js";
import { element, shortened } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { counted, stepText, timeText } from "../text/format.js";
import { NameList, namesOf } from "../parts/name_list.js";
import { RankChooser } from "../parts/rank_chooser.js";
import { viewKeys } from "../parts/row_list.js";
import { SmallLines } from "../parts/small_lines.js";

const AHEAD = 3;
const SMALL = 128;

/**
 * @typedef {{step: number, seq: number, time_ms: number, width: number | null, height: number | null}} Entry
 */

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  return new Images(root, context);
}

class Images {
  /** @param {HTMLElement} root @param {import("../context.js").Context} context */
  constructor(root, context) {
    this.context = context;
    /** @type {Map<string, Entry[]>} by run */
    this.entries = new Map();
    /** @type {number[]} */
    this.steps = [];
    this.name = "";
    this.turn = 0;
    /** @type {string} the series that can be shown below */
    this.listed = "";
    /** @type {string} the images that are shown */
    this.shown = "";
    this.names = new NameList("images", (name) => this.set({ name, step: null }, true));
    this.slider = element("input", { type: "range", min: "0", "aria-label": "step", input: () => this.go(Number(this.slider.value)) });
    this.said = element("output", { class: "step" });
    this.size = element("select", { "aria-label": "size of the images", change: () => this.set({ size: this.size.value }) },
      ...["fit", "1", "2", "4", "8", "16"].map((value) => element("option", { value }, value === "fit" ? "fit" : `${value} ×`)));
    this.series = element("select", { "aria-label": "series below the images", change: () => this.set({ series: this.series.value, bare: !this.series.value }).then(() => this.loadSeries()) });
    this.ranks = new RankChooser(context, (rank) => this.set({ rank, name: null, step: null }, true));
    this.figures = element("div", { class: "figures" });
    this.lines = new SmallLines("series by step", (x) => this.go(nearest(this.steps, x)));
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ run) => element("button", { "aria-label": label, title: label, click: run }, text);
    this.panel = element("div", { class: "detail" },
      element("div", { class: "bar" }, button("◀", "previous step (←)", () => this.move(-1)), this.slider, button("▶", "next step (→)", () => this.move(1)), this.said,
        element("label", null, "size ", this.size), element("label", null, "below ", this.series), this.ranks.element),
      this.figures, this.lines.element);
    this.nothing = element("p", { class: "note", hidden: true }, "The chosen runs have no images. run.image(name, values, layout=…) records one.");
    root.append(element("div", { class: "split" }, this.names.element, this.panel), this.nothing);
    viewKeys({
      ArrowLeft: () => this.move(-1), ArrowRight: () => this.move(1), Home: () => this.go(0), End: () => this.go(this.steps.length - 1),
      "[": () => this.other(-1), "]": () => this.other(1),
    }, context.signal); // prettier-ignore
    void this.load();
  }

  /** Sets parameters and shows what they say. @param {Record<string, string | number | boolean | null>} changes @param {boolean} [load] */
  async set(changes, load = false) {
    this.context.params.set(changes);
    if (load) await this.load();
    else this.show();
  }

  async load() {
    try {
      await this.read();
    } catch (error) {
      this.context.fail(error);
    }
  }

  async read() {
    const { source, params, signal } = this.context;
    const turn = ++this.turn;
    this.ranks.update();
    const runs = this.ranks.runs();
    const known = await namesOf(this.context, ["image", "scalar"], this.ranks);
    if (turn !== this.turn) return; // something else was asked for meanwhile
    const names = known.filter(({ kind }) => kind === "image").map(({ name }) => name);
    const name = names.includes(params.get("name")) ? params.get("name") : names[0] ?? ""; // other runs may lack it
    this.names.update(names, name);
    this.names.element.hidden = !names.length;
    this.panel.hidden = !names.length && this.ranks.element.hidden;
    this.nothing.hidden = names.length > 0;
    if (!names.length) {
      this.name = this.shown = "";
      this.steps = [];
      this.said.textContent = "";
      this.lines.element.hidden = true;
      this.figures.replaceChildren();
      return;
    }
    const having = known.find((one) => one.kind === "image" && one.name === name)?.runs;
    const asked = runs.filter(({ key }) => having?.includes(key) ?? true); // an export has no answers about the others
    const answers = await ofEachRun(this.context, asked, ({ key }) => source.json(address("images", { run: key, name, rank: this.ranks.of(key) }), { signal }));
    if (turn !== this.turn) return;
    this.name = name;
    this.entries = new Map(answers.map(({ run, answer }) => [run.key, answer.images]));
    this.steps = [...new Set(answers.flatMap(({ answer }) => answer.images.map((/** @type {Entry} */ one) => one.step)))].sort((a, b) => a - b);
    const scalars = known.filter(({ kind }) => kind === "scalar").map(({ name }) => name);
    this.listSeries(scalars);
    this.series.value = params.get("bare") ? "" : params.get("series") || lossOf(scalars);
    await this.loadSeries();
    this.show();
  }

  /** Leaves the list as it is, and open, where a run that trains has no other series. @param {string[]} names */
  listSeries(names) {
    const listed = JSON.stringify(names);
    if (listed === this.listed) return;
    this.listed = listed;
    this.series.replaceChildren(element("option", { value: "" }, "no series"), ...names.map((name) => element("option", { value: name }, shortened(name, 50))));
  }

  async loadSeries() {
    const { source, signal, fail } = this.context;
    const runs = this.ranks.runs();
    const name = this.series.value;
    this.lines.element.hidden = !name;
    if (!name) return;
    try {
      const found = await Promise.all(runs.map(async ({ key, name: label }, place) => {
        const { columns } = await source.columns(address("series", { run: key, name, rank: this.ranks.of(key), width: 1000 }), { signal }).catch(() => ({ columns: /** @type {any} */ ({}) }));
        return { x: columns.step ?? [], y: columns.value ?? columns.last ?? [], colour: runs[place].colour, label };
      })); // prettier-ignore
      if (name === this.series.value) this.lines.update(found, { x: "step", y: name }, this.step());
    } catch (error) {
      fail(error);
    }
  }

  place() {
    const wanted = this.context.params.get("step");
    return wanted ? nearest(this.steps, Number(wanted)) : this.steps.length - 1;
  }

  step() {
    return this.steps[this.place()] ?? null;
  }

  /** @param {number} place among the steps */
  go(place) {
    const step = this.steps[Math.min(this.steps.length - 1, Math.max(0, place))];
    if (step === undefined) return;
    this.context.params.set({ step }, true);
    this.show();
  }

  /** @param {number} by */
  move(by) {
    this.go(this.place() + by);
  }

  /** @param {number} by */
  other(by) {
    const name = this.names.beside(by);
    if (name) void this.set({ name, step: null }, true);
  }

  show() {
    const { params } = this.context;
    const runs = this.ranks.runs();
    const place = this.place();
    const step = this.steps[place];
    this.slider.max = String(Math.max(0, this.steps.length - 1));
    this.slider.value = String(place);
    this.slider.setAttribute("aria-valuetext", `step ${stepText(step)}`);
    this.said.textContent = `step ${stepText(step)} · ${place + 1} of ${counted(this.steps.length, "step")}`;
    this.size.value = params.get("size", "fit");
    this.lines.moveMark(step ?? null);
    // A picture that stays is not made anew: it would flicker each time that a run has something new.
    const shown = JSON.stringify([this.name, step, this.size.value, runs.map(({ key }) => [key, this.ranks.of(key), this.latest(key, step).map(({ seq }) => seq)])]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.figures.replaceChildren(...runs.map((run) => this.figure(run, step)));
    for (let by = 1; by <= AHEAD; by++) {
      for (const at of [place + by, place - by]) for (const run of runs) this.at(run.key, this.steps[at]).forEach((one) => (new Image().src = this.url(run.key, one)));
    }
  }

  /** The images of a run at a step. @param {string} run @param {number | undefined} step @returns {Entry[]} */
  at(run, step) {
    return (this.entries.get(run) ?? []).filter((one) => one.step === step);
  }

  /** The images of a run at a step, or at the last one before it that has some. @param {string} run @param {number} step */
  latest(run, step) {
    return this.at(run, (this.entries.get(run) ?? []).filter((one) => one.step <= step).at(-1)?.step);
  }

  /** @param {string} run @param {Entry} one */
  url(run, one) {
    try {
      return this.context.source.url(address("image", { run, name: this.name, rank: this.ranks.of(run), seq: one.seq }));
    } catch {
      return ""; // an export may leave some out
    }
  }

  /** @param {import("../context.js").ChosenRun} run @param {number} step */
  figure(run, step) {
    const shown = this.latest(run.key, step);
    const before = shown.at(-1);
    const older = before && before.step !== step ? ` (none at ${stepText(step)}: this is step ${stepText(before.step)})` : "";
    const made = element("figure", { class: `run-${run.place % 8}` },
      ...shown.map((one) => this.picture(run, one)),
      !before && element("p", { class: "note" }, `no image up to step ${stepText(step)}`),
      element("figcaption", null, element("span", { class: `swatch run-${run.place % 8}` }), ` ${run.name}${older}`,
        before && element("span", { class: "note" }, ` ${before.width} × ${before.height}, ${timeText(before.time_ms)}`)));
    // Runs stay side by side, up to four in a row, unless a size was chosen.
    if (this.size.value === "fit") made.style.maxWidth = `calc(${100 / Math.min(4, this.context.runs.length)}% - 15px)`;
    return made;
  }

  /** @param {import("../context.js").ChosenRun} run @param {Entry} one */
  picture(run, one) {
    const [width, height] = [one.width ?? SMALL, one.height ?? SMALL];
    const size = this.size.value;
    const factor = size === "fit" ? Math.max(1, Math.ceil((3 * SMALL) / Math.max(width, height))) : Number(size);
    const text = `${this.name} of ${run.name} at step ${stepText(one.step)}`.slice(0, 300);
    const url = this.url(run.key, one);
    if (!url) return element("p", { class: "note" }, `this export has no image of step ${stepText(one.step)}`);
    return element("img", { class: size === "fit" ? "pixels fit" : "pixels", src: url, alt: text, width: width * factor, height: height * factor });
  }

  /** @param {Set<string>} _changed */
  refresh(_changed) {
    void this.load();
  }

  state() {
    void this.load();
  }

  recolour() {
    this.lines.draw();
  }

  close() {
    this.lines.close();
    this.names.close();
  }
}

/** The place of the value that is nearest. @param {number[]} values in ascending order @param {number} wanted */
function nearest(values, wanted) {
  let best = 0;
  for (let place = 1; place < values.length; place++) if (Math.abs(values[place] - wanted) < Math.abs(values[best] - wanted)) best = place;
  return best;
}

/** The series that is most likely the training's loss. @param {string[]} names @returns {string} empty where none is named so */
function lossOf(names) {
  const shortest = [...names].sort((a, b) => a.length - b.length);
  return shortest.find((name) => /(^|[/.])loss$/i.test(name)) ?? shortest.find((name) => /loss/i.test(name)) ?? "";
}
