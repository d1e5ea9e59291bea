/** Asking again while a training writes: soon, and never so often that the asking is what the machine does. */

const PAUSE_MS = 700;
/** The pause after what took long, as a multiple of it. */
const PAUSES = 4;

/**
 * Calls at once what was not called for a while, else when its pause is over. It is called once for all that was due
 * meanwhile, and never while it still runs.
 * @param {() => Promise<unknown>} act handles its own errors @param {AbortSignal} signal nothing is called after it
 */
export function paced(act, signal) {
  let [timer, next] = [0, 0];
  let [running, wanted] = [false, false];
  async function call() {
    timer = 0;
    [running, wanted] = [true, false];
    const start = performance.now();
    try {
      await act();
    } finally {
      const end = performance.now();
      next = end + Math.max(PAUSE_MS, PAUSES * (end - start));
      running = false;
      if (wanted) due();
    }
  }
  function due() {
    if (signal.aborted) return;
    wanted = true;
    if (!running) timer ||= window.setTimeout(call, Math.max(0, next - performance.now()));
  }
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return due;
}
