/* What pages do beyond what the server wrote: follow news, keys, times. Every page works without it. */
"use strict";

const root = document.documentElement;
const store = {
  get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* private mode */ } },
};

/* Times: as written (how long ago), in UTC, or as the reader's clock has them. */
const two = (n) => String(n).padStart(2, "0");
const local = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;

function showTimes(within = document) {
  const how = store.get("times") || "ago";
  for (const each of within.querySelectorAll("time[data-ago]")) {
    const utc = each.getAttribute("title");
    each.textContent = how === "utc" ? utc : how === "local" ? local(new Date(each.dateTime)) : each.dataset.ago;
  }
}

/* Live parts: `data-live` with an id. The page asks for itself again and puts these in place. */
const LEAST_MS = 1500;
const stream = document.body.dataset.liveStream;
const liveButton = document.getElementById("live");
let isHeld = store.get("held") === "yes";
let isDue = false;
let isAsking = false;
let timer = null;
let lastAsked = 0;

const liveParts = () => [...document.querySelectorAll("[data-live][id]")];

/* News says of what it is, and a part may say what it shows: `data-live="case desk"`; others show everything. */
const concerns = (words) => words.includes("*") || liveParts().some((part) =>
  !part.dataset.live || part.dataset.live.split(" ").some((each) => words.includes(each)));

/* Somebody is in the middle of something there: a dialog, a form with something in it, ticked boxes. */
function isBusy() {
  if (document.querySelector("dialog[open], details.act[open]")) return true;
  return liveParts().some((part) =>
    part.querySelector("input:checked") || (part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")));
}

async function refresh() {
  if (isAsking || isHeld || document.hidden || isBusy()) { isDue = true; return; }
  const wait = LEAST_MS - (Date.now() - lastAsked);
  if (wait > 0) { timer ??= setTimeout(() => { timer = null; refresh(); }, wait); return; }
  isDue = false;
  isAsking = true;
  lastAsked = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { "X-Live": "1" }, credentials: "same-origin" });
    if (answer.redirected || answer.status === 401) { location.reload(); return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (isHeld || isBusy()) { isDue = true; return; }
    for (const part of liveParts()) putInPlace(part, fresh.getElementById(part.id));
  } catch { /* the stream says when the server is back */ } finally {
    isAsking = false;
    if (isDue) refresh(); // there were more news meanwhile
  }
}

/* A part is changed into its newer text piece by piece: what stays the same keeps its focus, its place, what is
   selected in it, and what the reader has opened. Rows are known again by where they lead. */
const KEPT = new Set(["open", "data-here"]);

const keyOf = (node) => node.id || (node.nodeName === "TR" || node.nodeName === "LI" ? node.querySelector("a[href]")?.getAttribute("href") : null);

function putInPlace(part, fresh) {
  if (!fresh) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  become(part, fresh);
  showTimes(part);
  if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

/* Somebody has written into it: then it stays whole, with what it says about what was seen. */
const isTouched = (form) => [...form.elements].some((each) =>
  each.type !== "hidden" && (each.type === "checkbox" ? each.checked !== each.defaultChecked : "defaultValue" in each && each.value !== each.defaultValue));

function become(node, fresh) {
  if (node.nodeType !== Node.ELEMENT_NODE) { if (node.data !== fresh.data) node.data = fresh.data; return; }
  if (node.nodeName === "FORM" && isTouched(node)) return;
  for (const { name } of [...node.attributes]) if (!fresh.hasAttribute(name) && !KEPT.has(name)) node.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (node.getAttribute(name) !== value && !KEPT.has(name)) node.setAttribute(name, value);
  const known = new Map();
  for (const each of node.childNodes) if (keyOf(each)) known.set(keyOf(each), [...(known.get(keyOf(each)) || []), each]);
  let at = node.firstChild;
  for (const each of fresh.childNodes) {
    const key = keyOf(each);
    const alike = key ? known.get(key)?.shift() : at && !keyOf(at) ? at : null;
    if (!alike || alike.nodeName !== each.nodeName) { node.insertBefore(document.importNode(each, true), at); continue; }
    if (alike === at) at = at.nextSibling; else node.insertBefore(alike, at);
    become(alike, each);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

/* A browser connects again by itself, but not after an answer that is no stream: then who looks may be logged out. */
const AGAIN_MS = 5000;
let isAway = false;

function listen() {
  const source = new EventSource(stream);
  const leave = () => source.close();
  addEventListener("pagehide", leave);
  source.addEventListener("news", (event) => { if (concerns(event.data.split(" "))) refresh(); });
  source.addEventListener("open", () => { if (isAway) { isAway = false; showHeld(); refresh(); } });
  source.addEventListener("error", () => {
    isAway = true;
    showHeld();
    if (source.readyState !== EventSource.CLOSED) return;
    removeEventListener("pagehide", leave);
    setTimeout(listen, AGAIN_MS);
    refresh();
  });
}

function follow() {
  if (!stream || !window.EventSource || liveParts().length === 0) return;
  listen();
  document.addEventListener("visibilitychange", () => { if (!document.hidden && isDue) refresh(); });
  document.addEventListener("toggle", () => { if (isDue) refresh(); }, true);
  document.addEventListener("change", () => { if (isDue) refresh(); });
  document.getElementById("help").addEventListener("close", () => { if (isDue) refresh(); });
  liveButton.hidden = false;
  showHeld();
  liveButton.addEventListener("click", hold);
}

function hold() {
  isHeld = !isHeld;
  store.set("held", isHeld ? "yes" : "no");
  showHeld();
  if (!isHeld) refresh();
}

function showHeld() {
  liveButton.setAttribute("aria-pressed", String(!isHeld));
  liveButton.textContent = isHeld ? "held" : isAway ? "away" : "live";
}

/* Keys. */
const rows = () => [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a[href]"));

function mark(at, focuses = true) {
  const all = rows();
  if (all.length === 0) return;
  const row = all[Math.max(0, Math.min(at, all.length - 1))];
  for (const each of all) each.removeAttribute("data-here");
  row.setAttribute("data-here", "");
  if (focuses) { row.querySelector("a[href]").focus(); row.scrollIntoView({ block: "nearest" }); }
}

let isGoing = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") for (const each of document.querySelectorAll("details.act[open], .menu[open]")) { each.open = false; each.querySelector("summary").focus(); }
  if (event.target.matches("input:not([type=checkbox]), select, textarea") || document.querySelector("dialog[open]")) return;
  if (isGoing) {
    isGoing = false;
    const link = document.querySelector(`.nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); location.assign(link.href); }
    return;
  }
  const at = rows().findIndex((row) => row.hasAttribute("data-here"));
  switch (event.key) {
    case "/": event.preventDefault(); document.getElementById("find")?.focus(); break;
    case "?": event.preventDefault(); document.getElementById("help").showModal(); break;
    case "g": isGoing = true; setTimeout(() => { isGoing = false; }, 1500); break;
    case "j": mark(at + 1); break;
    case "k": mark(at < 0 ? 0 : at - 1); break;
    case "x": if (at >= 0) rows()[at].querySelector("input[type=checkbox]")?.click(); break;
    case "p": if (liveButton && !liveButton.hidden) hold(); break;
  }
});

/* Boxes: one that ticks all of its table, and a count of those that are ticked. */
document.addEventListener("change", (event) => {
  const box = event.target;
  if (box.matches("input[type=checkbox][data-all]"))
    for (const each of box.closest("form, table").querySelectorAll("tbody input[type=checkbox]")) each.checked = box.checked;
  if (box.matches("input[type=checkbox]"))
    for (const each of document.querySelectorAll("[data-ticked]"))
      each.textContent = document.querySelectorAll("tbody input[type=checkbox]:checked").length;
});

/* Only one menu is open at a time, and a click elsewhere closes it. */
document.addEventListener("click", (event) => {
  for (const each of document.querySelectorAll("details.act[open], details.menu[open]"))
    if (!each.contains(event.target)) each.open = false;
});

for (const each of document.querySelectorAll(".needs-script")) each.hidden = false;
const times = document.getElementById("times");
if (times) {
  times.value = store.get("times") || "ago";
  times.addEventListener("change", () => { store.set("times", times.value); showTimes(); });
}
document.getElementById("keys-help")?.addEventListener("click", () => document.getElementById("help").showModal());
document.getElementById("help")?.addEventListener("click", (event) => { if (event.target.id === "help") event.target.close(); });
const nav = document.querySelector("details.nav");
if (nav && matchMedia("(max-width: 52rem)").matches) nav.open = false;
root.classList.add("has-script");
showTimes();
follow();
