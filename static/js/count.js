// How much waits for this person: in the badge, the tab's title and its icon.
import { setServerNow } from "./clock.js";
import { $, $$ } from "./page.js";

export function count(fragment) {
  const total = $("[data-total]", fragment);
  if (!total) return;
  setServerNow(total.dataset.serverNow);
  showCount(Number(total.dataset.total));
}

export function showCount(number) {
  for (const badge of $$("[data-waiting]")) { badge.textContent = number; badge.hidden = !number; }
  document.title = document.title.replace(/^(\(\d+\) )?/, number ? `(${number}) ` : "");
  drawFavicon(number);
}

function drawFavicon(number) {
  const badge = [
    `<circle cx="23" cy="9" r="9" fill="#c0362c"/>`,
    `<text x="23" y="13" font-size="12" font-family="sans-serif" font-weight="700"`,
    ` text-anchor="middle" fill="#fff">${Math.min(number, 99)}</text>`,
  ];
  const svg = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">`,
    `<rect width="32" height="32" rx="8" fill="#4448b8"/>`,
    `<path d="M9 16.5l5 5 9.5-11" fill="none" stroke="#fff" stroke-width="3.5"/>`,
    ...(number ? badge : []),
    `</svg>`,
  ].join("");
  const link = $("[data-favicon]");
  if (link) link.href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
