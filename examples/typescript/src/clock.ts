/** How time passes for the client; its tests let it pass at once. */
export const clock = {
  now: (): number => performance.now(),
  pause,
};

const LONGEST_TIMER_MS = 2 ** 31 - 1;

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => (clearTimeout(timer), reject(signal?.reason));
    const end = () => (signal?.removeEventListener("abort", stop), resolve());
    const timer = setTimeout(end, Math.min(ms, LONGEST_TIMER_MS)); // a longer one ends at once
    signal?.addEventListener("abort", stop, { once: true });
  });
}
