// Comfort for pages that work without it: keys, picking lines, copying links, filtering, live figures.
"use strict";

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function say(text) {
  const place = one("#said");
  place.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { place.textContent = ""; }, 2500);
}

// Keys. Steps are results, rows or entries; in a file they are its marks.

const steps = () => {
  const found = all("[data-step]:not([hidden])");
  return found.length ? found : all(".source mark");
};

function move(by) {
  const list = steps();
  if (!list.length) return;
  const at = list.indexOf(one(".current"));
  const next = list[Math.max(0, Math.min(list.length - 1, at < 0 ? (by > 0 ? 0 : list.length - 1) : at + by))];
  all(".current").forEach((each) => each.classList.remove("current"));
  next.classList.add("current");
  next.scrollIntoView({ block: next.matches("mark") ? "center" : "nearest" });
}

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

const KEYS = {
  "/": () => { const box = one("#q"); box.focus(); box.select(); },
  j: () => move(1),
  k: () => move(-1),
  y: () => { if (one("#permalink")) copyLink(one("#permalink").href); },
  "?": () => one("#keys").showModal(),
  Enter: (event) => {
    const link = one(".current [data-open]");
    if (link && (event.target === document.body || event.target.closest(".current"))) link.click();
    return Boolean(link);
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  if (Object.hasOwn(KEYS, event.key) && KEYS[event.key](event) !== false) event.preventDefault();
});

// Lines of a file: #L10 and #L10-L20 are picked, a click picks one, with shift a range.

const pickedRange = () => {
  const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  if (!found) return null;
  const ends = [Number(found[1]), Number(found[2] || found[1])];
  return { first: Math.min(...ends), last: Math.max(...ends) };
};

const fragment = ({ first, last }) => (first === last ? `#L${first}` : `#L${first}-L${last}`);

function showPicked(isNew) {
  all(".picked").forEach((line) => line.classList.remove("picked"));
  const range = pickedRange();
  const link = one("#permalink");
  if (link) link.hash = range ? fragment(range) : "";
  if (!range) return;
  const lines = all(".source .line").slice(range.first - 1, range.last);
  lines.forEach((line) => line.classList.add("picked"));
  if (isNew && lines.length) lines[0].scrollIntoView({ block: "center" });
}

function pick(event) {
  const number = event.target.closest(".source .no");
  if (!number || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const line = Number(number.dataset.n);
  const before = pickedRange();
  const range = event.shiftKey && before
    ? { first: Math.min(before.first, line), last: Math.max(before.first, line) }
    : { first: line, last: line };
  history.replaceState(null, "", fragment(range));
  showPicked(false);
}

async function copyLink(url) {
  try {
    await navigator.clipboard.writeText(url);
    say("Link copied");
  } catch {
    say("The browser does not let the page copy: take the link from the address bar");
  }
}

if (one(".source")) {
  document.addEventListener("click", pick);
  window.addEventListener("hashchange", () => showPicked(true));
  showPicked(true);
  if (!location.hash) one(".source mark")?.scrollIntoView({ block: "center" });
}
const copy = one("#copy");
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", () => copyLink(one("#permalink").href));
}

// A filter hides rows at once; the server does the same on Enter.

const filter = one("[data-filter]");
if (filter && one(filter.dataset.filter)) {
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    const rows = all(`${filter.dataset.filter} tbody tr`);
    rows.forEach((row) => { row.hidden = !words.every((word) => row.dataset.name.includes(word)); });
    one("#none").hidden = rows.some((row) => !row.hidden);
  });
}

// The fleet, live: server-sent events, or polling every few seconds where they do not work.

const ASK_AGAIN_MS = 3000;
const fleet = one("[data-live]");

function showFleet(html) {
  const focused = fleet.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  fleet.innerHTML = html;
  if (focused) all("a", fleet).find((link) => link.getAttribute("href") === focused)?.focus();
  showFleet.at = performance.now();
}

function showLive(isLive) {
  const sign = one("#live");
  sign.hidden = false;
  sign.classList.toggle("stale", !isLive);
  one("#live-word").textContent = isLive ? "live" : "connecting again";
}

async function askForFleet() {
  try {
    const answer = await fetch(fleet.dataset.now);
    if (answer.ok) showFleet(await answer.text());
    showLive(answer.ok);
  } catch {
    showLive(false);
  }
  setTimeout(askForFleet, ASK_AGAIN_MS);
}

function listen() {
  const source = new EventSource(fleet.dataset.live);
  source.onopen = () => showLive(true);
  source.onmessage = (event) => { showFleet(event.data); showLive(true); };
  source.onerror = () => {
    showLive(false);
    if (source.readyState === EventSource.CLOSED) askForFleet();
  };
  window.addEventListener("pagehide", () => source.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
}

if (fleet) {
  showFleet.at = performance.now();
  listen();
  setInterval(() => {
    const passed = (performance.now() - showFleet.at) / 1000;
    all("[data-countdown]", fleet).forEach((cell) => {
      cell.textContent = `${Math.max(0, Number(cell.dataset.countdown) - passed).toFixed(1)} s`;
    });
  }, 100);
}

// Beside the text there is room for the outline; above it, it would be in the way.

const outline = one(".outline details");
if (outline && matchMedia("(max-width: 60rem)").matches) outline.open = false;

// An open menu closes when something else is clicked.

document.addEventListener("click", (event) => {
  all("details.menu[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
});
