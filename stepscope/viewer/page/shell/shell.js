/** The page around a view: header, navigation, state in the hash, news of the runs. */
import { formatHash, parseHash } from "../data/address.js";
import { element } from "../dom.js";
import { listenForKeys } from "./keyboard.js";
import { Messages } from "./messages.js";
import { currentHash, setHash, whenMoved } from "./place.js";
import { poll } from "../data/polling.js";
import { RunChooser } from "./run_chooser.js";
import { toldApart } from "./run_names.js";
import { listenedTo } from "../data/source.js";
import { runColour, schemeSwitch } from "./theme.js";
import { VIEWS } from "../views/table.js";
import { nameText } from "../text/visible.js";

const LOOK_FOR_RUNS_MS = 10_000;
/** As many runs as have a colour of their own. */
const MOST_NAMED = 8;

/** Not so, that observers of sizes have more to do in the next frame: browsers tell pages of that as of an error. @param {ErrorEvent} event */
const isError = ({ error, message }) => !!error || !message.startsWith("ResizeObserver loop");

/** @param {import("../context.js").RunInfo[]} runs */
const ranksOf = (runs) => runs.map(({ key, ranks }) => `${key} ${ranks}`).join(";");

export class Shell {
  /**
   * @param {HTMLElement} body
   * @param {import("../data/source.js").Source} source
   * @param {string | null} [first] the run that is shown when the hash names none, and those that were given one by one
   *   are none or many; by default the newest
   */
  constructor(body, source, first = null) {
    /** @type {string[] | null} the runs that are shown when the hash names none */
    this.first = null;
    this.otherwise = first;
    this.messages = new Messages();
    this.source = listenedTo(source, (address) => this.messages.answered(address));
    this.chooser = new RunChooser((keys) => this.go({ ...parseHash(currentHash()), runs: keys }));
    /** @type {import("../context.js").RunInfo[]} */
    this.runs = [];
    /** @type {import("../context.js").View | null} */
    this.view = null;
    this.closing = new AbortController();
    this.opened = "";
    this.lookedForRuns = 0;
    const scheme = schemeSwitch(() => this.view?.recolour?.());
    this.links = VIEWS.map(({ title, key }) => element("a", { title: `g ${key}` }, title));
    const showKeys = listenForKeys([
      ...VIEWS.map(({ name, title, key }) => ({ keys: `g ${key}`, does: title, run: () => this.navigate(name) })),
      { keys: "r", does: "choose runs", run: () => this.chooser.toggle(true) },
      { keys: "/", does: "search in the view", run: () => this.searchField()?.focus() },
      { keys: "t", does: "light or dark", run: () => scheme.click() },
      { keys: "?", does: "these keys", run: () => undefined },
    ]);
    this.root = element("main", { tabIndex: -1 });
    const header = element("header", null, element("strong", { class: "brand" }, "stepscope"), element("nav", { "aria-label": "views" }, ...this.links),
      this.chooser.element, this.messages.status, scheme, element("button", { class: "icon", "aria-label": "keyboard shortcuts", title: "keys (?)", click: showKeys }, "?"));
    body.append(
      element("a", { class: "skip", href: "#", click: (/** @type {Event} */ event) => (event.preventDefault(), this.root.focus()) }, "Skip to the view"),
      header,
      this.messages.errors,
      this.root,
    );
    // What sticks below the header needs its height: it has two rows on a narrow screen.
    const fit = () => {
      this.chooser.show(); // as many runs as find room
      document.documentElement.style.setProperty("--header-height", `${header.offsetHeight}px`);
    };
    // In the next frame: this changes what is observed, which browsers call an error.
    new ResizeObserver(() => requestAnimationFrame(fit)).observe(header);
  }

  async start() {
    whenMoved(() => {
      this.route();
      if (this.source.live && this.chosen().length < this.chosenKeys().length) void this.findRuns();
    });
    window.addEventListener("error", (event) => isError(event) && this.messages.fail(event.error ?? event.message));
    window.addEventListener("unhandledrejection", (event) => this.messages.fail(event.reason));
    await this.lookForRuns();
    this.route();
    if (!this.source.live) return;
    poll(this.source, {
      keys: () => this.chosen().map(({ key }) => key),
      changed: (keys, states) => this.changed(keys, states),
      failed: (error) => this.messages.fail(error, "server"),
    });
  }

  async lookForRuns() {
    this.lookedForRuns = Date.now();
    try {
      const { runs: found, named = [], unreadable } = await this.source.json("runs");
      const runs = toldApart(/** @type {import("../context.js").RunInfo[]} */ (found));
      const kept = this.runs.filter((old) => !runs.some((/** @type {any} */ run) => run.key === old.key) && this.chosenKeys().includes(old.key));
      this.runs = [...runs, ...kept].map((run) => ({ ...run, live: run.live && this.source.live }));
      this.runs.sort((a, b) => (b.created_ms ?? 0) - (a.created_ms ?? 0));
      const few = named.length > 0 && named.length <= MOST_NAMED;
      const otherwise = this.otherwise ?? this.runs[0]?.key;
      this.first ??= few ? named : otherwise ? [otherwise] : null; // A run that begins later does not take the place of the one that is read.
      this.chooser.update(this.runs, unreadable, this.chosenKeys());
    } catch (error) {
      this.messages.fail(error, "server");
    }
  }

  /** Looks for runs, and shows those that the hash names, or the first one, as soon as they are there, and their ranks. */
  async findRuns() {
    const known = ranksOf(this.chosen());
    await this.lookForRuns();
    if (ranksOf(this.chosen()) !== known) this.route();
  }

  /** @param {Set<string>} keys @param {Record<string, any>} states */
  changed(keys, states) {
    this.chooser.mark(states);
    for (const [key, state] of Object.entries(states)) {
      const known = this.runs.find((run) => run.key === key);
      const name = known?.name ?? key;
      // Another run lies in the folder: what was read of the one before is of no use to it.
      if (known?.created_ms && state.created_ms && known.created_ms !== state.created_ms) location.reload();
      if (state.error) this.messages.fail(`${name} cannot be read: ${state.error}. What the page shows of it was read before.`, key);
      else if (state.damage) this.messages.fail(`${name} is damaged: ${state.damage}`, key);
      else this.messages.clear(key);
    }
    if (!this.runs.length || Date.now() - this.lookedForRuns > LOOK_FOR_RUNS_MS) void this.findRuns();
    if (keys.size) this.view?.refresh(keys);
  }

  chosenKeys() {
    const { runs } = parseHash(currentHash());
    if (runs) return runs;
    const first = this.first?.filter((key) => this.runs.some((run) => run.key === key)) ?? [];
    return first.length ? first : this.runs.slice(0, 1).map(({ key }) => key);
  }

  /** @returns {import("../context.js").ChosenRun[]} */
  chosen() {
    return this.chosenKeys().flatMap((key, place) => {
      const run = this.runs.find((known) => known.key === key);
      return run ? [{ ...run, place, get colour() { return runColour(place); } }] : [];
    });
  }

  /** @param {import("../data/address.js").State} state @param {boolean} [replace] */
  go(state, replace = false) {
    const hash = formatHash(state);
    if (hash === currentHash()) return;
    setHash(hash, replace);
    this.route();
  }

  /** @param {string} view @param {Record<string, string | number | null | undefined>} [params] */
  href(view, params = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) {
      if (value !== null && value !== undefined && value !== "" && name !== "runs") query.set(name, String(value));
    }
    const runs = params.runs ? String(params.runs).split(",") : parseHash(currentHash()).runs;
    return formatHash({ view, runs, params: query });
  }

  /** @param {string} view @param {Record<string, string | number | null | undefined>} [params] */
  navigate(view, params) {
    this.go(parseHash(this.href(view, params)));
  }

  /** Shows what the hash says. */
  route() {
    const state = parseHash(currentHash());
    const entry = VIEWS.find(({ name }) => name === state.view) ?? VIEWS[0];
    for (const [place, link] of this.links.entries()) {
      link.href = this.href(VIEWS[place].name);
      if (VIEWS[place] === entry) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const runs = this.chosen();
    for (const { key } of this.runs) if (!runs.some((run) => run.key === key)) this.messages.clear(key);
    const wanted = `${entry.name} ${ranksOf(runs)}`; // a rank may begin later than the others
    if (wanted === this.opened) {
      this.view?.state();
      return;
    }
    this.opened = wanted;
    this.close();
    this.chooser.update(this.runs, this.chooser.unreadable, this.chosenKeys());
    document.title = `${entry.title} · ${runs.map(({ name }) => nameText(name)).join(", ").slice(0, 80) || "stepscope"}`;
    this.root.className = `view-${entry.name}`;
    this.root.setAttribute("aria-label", entry.title);
    if (!runs.length) this.root.replaceChildren(this.nothing());
    else this.open(entry, runs);
  }

  /** @param {import("../context.js").ViewEntry} entry @param {import("../context.js").ChosenRun[]} runs */
  open(entry, runs) {
    this.closing = new AbortController();
    const { signal } = this.closing;
    const root = element("div", { class: "view" });
    this.root.replaceChildren(root);
    try {
      this.view = entry.open(root, {
        source: this.source,
        runs,
        params: {
          get: (name, otherwise = "") => parseHash(currentHash()).params.get(name) ?? otherwise,
          set: (changes, replace = false) => this.setParams(changes, replace),
        },
        signal,
        navigate: (view, params) => this.navigate(view, params),
        href: (view, params) => this.href(view, params),
        announce: (text) => this.messages.announce(text),
        fail: (error) => signal.aborted || this.messages.fail(error),
      });
    } catch (error) {
      this.messages.fail(error);
    }
  }

  /** The view that sets its parameters knows them: it is not told. @param {Record<string, any>} changes @param {boolean} replace */
  setParams(changes, replace) {
    const state = parseHash(currentHash());
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "" || value === false) state.params.delete(name);
      else state.params.set(name, value === true ? "1" : String(value));
    }
    const hash = formatHash({ ...state, view: this.opened.split(" ")[0] });
    if (hash !== currentHash()) setHash(hash, replace);
  }

  close() {
    this.closing.abort();
    this.messages.leaveView();
    this.view?.close();
    this.view = null;
  }

  searchField() {
    return /** @type {HTMLElement | null} */ (this.root.querySelector("input[type=search]"));
  }

  nothing() {
    const { unreadable } = this.chooser;
    if (!this.runs.length && unreadable.length) {
      return element("div", { class: "empty" }, element("h1", null, "No run can be read"),
        element("ul", null, ...unreadable.map(({ folder, error }) => element("li", null, error.startsWith(folder) ? error : `${folder}: ${error}`))));
    }
    const text = this.runs.length
      ? "No run is chosen. Press r, or the button above, and choose one."
      : "There is no run to show. Train with stepscope.open_run(\"runs/first\") or stepscope.watch(…), then open it: stepscope view runs. This page shows a run as soon as there is one.";
    return element("div", { class: "empty" }, element("h1", null, this.runs.length ? "Choose a run" : "No runs yet"), element("p", null, text));
  }
}
