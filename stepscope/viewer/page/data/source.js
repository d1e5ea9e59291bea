/**
 * Where answers come from: the server, or data inside the page. Both have one interface.
 *
 * @typedef {object} Source
 * @property {boolean} live whether the runs may get new data
 * @property {(address: string, options?: {signal?: AbortSignal}) => Promise<any>} json
 * @property {(address: string, options?: {signal?: AbortSignal}) => Promise<import("./columns.js").Columns>} columns
 * @property {(address: string) => string} url what an <img> or a link needs
 *
 * @typedef {[type: string, encoding: "text" | "base64" | "gzip" | "file" | "script", data: string]} StaticAnswer
 *   ``gzip`` is base64 of gzip, ``file`` the path of a picture beside the page, ``script`` that of a script with more
 *   answers, which puts them into ``STEPSCOPE_DATA`` under its name: fetch does not work from file://
 * @typedef {Record<string, StaticAnswer>} StaticAnswers by address
 */
import { staticKey } from "./address.js";
import { decodeColumns } from "./columns.js";
import { element } from "../dom.js";

const KEPT_ANSWERS = 400;
/** Browsers open six connections to a server; what waits here can still be given up. */
const MOST_AT_ONCE = 6;

/** An answer that is an error: ``status`` is that of HTTP, 0 if the server does not answer. */
export class AnswerError extends Error {
  /** @param {string} message @param {number} status @param {string} [address] what was asked for */
  constructor(message, status, address = "") {
    super(message);
    this.status = status;
    this.address = address;
  }
}

/** @param {Response} response @param {string} address */
async function errorOf(response, address) {
  const text = await response.text();
  try {
    return new AnswerError(JSON.parse(text).error ?? text, response.status, address);
  } catch {
    return new AnswerError(text.slice(0, 500) || `the server answered ${response.status}`, response.status, address);
  }
}

/**
 * A source that tells of each answer.
 * @param {Source} source
 * @param {(address: string) => void} answered
 * @returns {Source}
 */
export function listenedTo(source, answered) {
  /** @template T @param {string} address @param {Promise<T>} answer */
  const told = async (address, answer) => {
    const value = await answer;
    answered(address);
    return value;
  };
  return {
    live: source.live,
    json: (address, options) => told(address, source.json(address, options)),
    columns: (address, options) => told(address, source.columns(address, options)),
    url: source.url,
  };
}

/** Lets a few at once go on, and the others in the order of their coming, unless they are given up before. */
export class Turns {
  /** @param {number} most */
  constructor(most) {
    this.free = most;
    /** @type {(() => void)[]} */
    this.waiting = [];
  }

  /** @param {AbortSignal} [signal] @returns {Promise<void>} */
  take(signal) {
    if (this.free > 0) {
      this.free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const begin = () => {
        signal?.removeEventListener("abort", giveUp);
        resolve();
      };
      const giveUp = () => {
        this.waiting.splice(this.waiting.indexOf(begin), 1);
        reject(/** @type {AbortSignal} */ (signal).reason);
      };
      this.waiting.push(begin);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }

  give() {
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

/**
 * Answers over HTTP. An answer that the server has not changed since (its ETag) is not sent or decoded again.
 * @param {string} root
 * @returns {Source}
 */
export function liveSource(root = "api/") {
  /** @type {Map<string, {etag: string, value: any}>} in the order of their use */
  const kept = new Map();
  const turns = new Turns(MOST_AT_ONCE);

  /** @param {string} address @param {(response: Response) => Promise<any>} decode @param {AbortSignal | undefined} signal */
  async function answer(address, decode, signal) {
    signal?.throwIfAborted();
    await turns.take(signal);
    try {
      return await asked(address, decode, signal);
    } finally {
      turns.give();
    }
  }

  /** @param {string} address @param {(response: Response) => Promise<any>} decode @param {AbortSignal | undefined} signal */
  async function asked(address, decode, signal) {
    const known = kept.get(address);
    /** @type {Response} */
    let response;
    try {
      /** @type {Record<string, string>} */
      const headers = known ? { "If-None-Match": known.etag } : {};
      response = await fetch(root + address, { headers, signal, cache: "no-store" });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new AnswerError("the viewer does not answer: is stepscope view still running?", 0);
    }
    if (response.status === 304 && known) {
      kept.delete(address);
      kept.set(address, known);
      return known.value;
    }
    if (!response.ok) throw await errorOf(response, address);
    const value = await decode(response);
    const etag = response.headers.get("ETag");
    if (etag) {
      kept.delete(address);
      kept.set(address, { etag, value });
      for (const oldest of kept.keys()) {
        if (kept.size <= KEPT_ANSWERS) break;
        kept.delete(oldest);
      }
    }
    return value;
  }

  return {
    live: true,
    json: (address, { signal } = {}) => answer(address, (response) => response.json(), signal),
    columns: (address, { signal } = {}) =>
      answer(address, async (response) => decodeColumns(await response.arrayBuffer()), signal),
    url: (address) => root + address,
  };
}

/** @param {string} text */
const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** @type {Map<string, Promise<StaticAnswers>>} */
const scripts = new Map();

/** Loads a script with more answers. @param {string} path @returns {Promise<StaticAnswers>} */
function answersOf(path) {
  const known = scripts.get(path);
  if (known) return known;
  const loaded = new Promise((resolve, reject) => {
    const script = element("script", { src: path });
    script.addEventListener("load", () => {
      script.remove();
      resolve(/** @type {any} */ (globalThis).STEPSCOPE_DATA?.[path.split("/").at(-1) ?? ""] ?? {});
    });
    script.addEventListener("error", () => {
      script.remove();
      scripts.delete(path);
      reject(new AnswerError(`${path} is not beside this page: it was moved without its folder data`, 404));
    });
    document.head.append(script);
  });
  scripts.set(path, loaded);
  return loaded;
}

/** @param {StaticAnswer} answer @param {string} address @returns {Promise<ArrayBuffer>} */
async function buffer([, encoding, data], address) {
  if (encoding === "script") return buffer((await answersOf(data))[address], address);
  if (encoding === "text") return /** @type {ArrayBuffer} */ (new TextEncoder().encode(data).buffer);
  if (encoding === "base64") return bytesOf(data).buffer;
  const unpacked = new Blob([bytesOf(data)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).arrayBuffer();
}

/**
 * Answers out of the page.
 * @param {StaticAnswers} answers
 * @returns {Source}
 */
export function staticSource(answers) {
  const byKey = new Map(Object.entries(answers).map(([address, answer]) => [staticKey(address), { address, answer }]));
  /** @type {Map<string, Promise<any>>} */
  const decoded = new Map();

  /** @param {string} address */
  function find(address) {
    const found = byKey.get(staticKey(address));
    if (!found) throw new AnswerError(`this export left out what is asked for; stepscope view RUN shows it (${address.slice(0, 200)})`, 404);
    return found;
  }
  /** @param {string} address @param {(bytes: ArrayBuffer) => any} decode */
  async function once(address, decode) {
    const key = staticKey(address);
    const found = find(address);
    if (!decoded.has(key)) decoded.set(key, buffer(found.answer, found.address).then(decode));
    return decoded.get(key);
  }
  return {
    live: false,
    json: (address) => once(address, (bytes) => JSON.parse(new TextDecoder().decode(bytes))),
    columns: (address) => once(address, decodeColumns),
    url(address) {
      const [type, encoding, data] = find(address).answer;
      if (encoding === "file") return data;
      if (encoding === "gzip" || encoding === "script") throw new AnswerError(`${address} is packed: an address of a picture is not`, 500);
      return encoding === "text" ? `data:${type},${encodeURIComponent(data)}` : `data:${type};base64,${data}`;
    },
  };
}
