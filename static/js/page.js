// What the parts of the desk's scripts share: finding, fetching, announcing.
export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
export const parsed = (html) => new DOMParser().parseFromString(html, "text/html");
export const isNarrow = matchMedia("(max-width: 860px)");

export function announce(text) {
  const region = $("[data-announce]");
  if (region) region.textContent = text;
}

// The line of a form that says what is missing, or went wrong.
export function tell(form, text) {
  const fault = $("[data-fault]", form);
  if (!fault) return;
  if (fault.textContent !== text) fault.textContent = text;
  fault.hidden = !text;
}

// To the sign-in page, which says that nothing was decided, and back here afterwards.
export function leaveForSignIn() {
  const there = location.pathname + location.search;
  location.href = `/sign-in/?why=ended&next=${encodeURIComponent(there)}`;
}

// The answer to a request of a part of the page; null where there was none, or the person has to
// sign in again.
export async function fetchPart(address) {
  try {
    const answer = await fetch(address, { headers: { "HX-Request": "true" }, redirect: "manual" });
    if (answer.status === 401 || answer.type === "opaqueredirect") { leaveForSignIn(); return null; }
    return answer;
  } catch { return null; }
}

export async function fetchFragment(address) {
  const answer = await fetchPart(address);
  return answer?.ok ? answer.text() : null;
}
