// Passes events to Python, which runs in a worker, and does to the page what comes back.
"use strict";
let worker = null, isReady = false, isBusy = false, hasMore = false;
let shown = null; // the place that Python was asked for last
const waiting = []; // messages that Python has not got yet
let asking = null; // what a reader has done, and Python computes now
let isOver = false; // Python has not started, or has stopped
let slow = 0; // the timer of what Python takes long for
const SLOW = 200; // milliseconds; what is done sooner needs no sign
const LATE = 30000; // milliseconds until the page says that the start takes long

const first = (at) => document.querySelector(`script[data-place="${at}"]`).textContent;

function ask(message) {
  const last = waiting.at(-1);
  if (message.event === "value" && last?.id === message.id && last.event === "value") {
    waiting.pop(); // a knob that moves on: only where it stands now counts
  }
  waiting.push(message);
  next();
}
function next() {
  if (!isReady || isBusy) return;
  asking = waiting.shift() ?? null;
  const message = asking ?? (hasMore ? { event: "go on" } : null);
  if (!message) return;
  isBusy = true;
  worker.postMessage(message);
}

// While Python computes what a reader has asked for, buttons do nothing. They are not
// disabled for the browser, which would take the keyboard's focus away.
function busy(is) {
  clearTimeout(slow);
  if (is && !isOver) slow = setTimeout(showBusy, SLOW, true);
  else showBusy(isOver);
}
function showBusy(is) {
  $("part").setAttribute("aria-busy", is && !isOver);
  if (isReady && !isOver) say(is ? "Computing …" : hasMore ? MORE : LIVE);
  for (const button of $("part").querySelectorAll("button")) {
    if (is) button.setAttribute("aria-disabled", true);
    else button.removeAttribute("aria-disabled");
  }
}

// --- what comes back ------------------------------------------------------------------

const find = (id) => document.querySelector(`#part [data-id="${id}"]`);
const field = (element) => element.querySelector("input, select");
const make = (html) => {
  const made = document.createElement("template");
  made.innerHTML = html;
  return made.content.firstElementChild;
};
const DO = {
  html: (element, html) => { element.firstElementChild.innerHTML = html; },
  text: (element, text) => { element.textContent = text; },
  class: (element, kinds) => { element.className = kinds; },
  display: (element, display) => { element.style.display = display; },
  focus: (element) => (field(element) ?? element).focus(),
  field: (element, name, value) => { field(element)[name] = value; },
  options: (element, html) => { field(element).innerHTML = html; },
  attribute: (element, name, value) => {
    if (value === null) element.removeAttribute(name);
    else element.setAttribute(name, value);
  },
  slider: (element, at, words) => {
    field(element).value = at;
    field(element).setAttribute("aria-valuetext", words);
    element.querySelector("output").textContent = words;
  },
  disabled: (element, is) => {
    for (const button of element.querySelectorAll("button")) button.disabled = is;
  },
  pressed: (element, at) => {
    for (const button of element.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", `${Number(button.dataset.at) === at}`);
      button.classList.toggle("mod-active", Number(button.dataset.at) === at);
    }
  },
  children: (element, children) => {
    const focused = document.activeElement; // lost by what is put in again
    element.replaceChildren(...children.map(([id, html]) => find(id) ?? make(html)));
    if (element.contains(focused)) focused.focus();
  },
};
let drawn = ""; // the HTML of the part as it was before any change
function show(html) {
  if (drawn === html) return; // the picture that came with the page; it may have the focus
  const id = document.activeElement.closest("[data-id]")?.dataset.id;
  $("part").innerHTML = drawn = html;
  const element = id && find(id);
  if (element) DO.focus(element);
}
function hear({ data }) {
  isBusy = false;
  asking = null;
  if (data.error) return fail(data.error);
  if (data.ready) {
    isReady = true;
    clearTimeout(late);
    say(LIVE);
    for (const one of document.querySelectorAll("#part .mp-waits")) {
      one.classList.remove("mp-waits");
    }
    document.documentElement.dataset.ready = "yes";
    return next();
  }
  if (data.html !== undefined) show(data.html);
  const news = JSON.parse(data.news);
  if (news.changes.length) drawn = "";
  // The focus at last: a field that it leaves has its new value by then.
  const isFocus = ([what]) => what === "focus";
  const sorted = [...news.changes.filter((one) => !isFocus(one)), ...news.changes.filter(isFocus)];
  for (const [what, id, ...values] of sorted) DO[what](find(id), ...values);
  if (news.said) $("said").textContent = news.said;
  hasMore = news.more;
  busy(waiting.length > 0);
  if (!waiting.length) {
    if (place() !== news.place) history.replaceState(null, "", `#${news.place}`);
    shown = news.place;
    mark(news.place);
    document.documentElement.dataset.idle = hasMore ? "no" : "yes";
  }
  next();
}
const LIVE = "Live: minipaged runs in this page.";
const MORE = "Computing the other rates …";
function say(words) {
  if ($("status").textContent !== words) $("status").textContent = words;
}
function fail(words) {
  isOver = true;
  busy(false);
  clearTimeout(late);
  say(isReady ? "Python has stopped. Load this page again." : "Python did not start.");
  $("error").hidden = false;
  $("error").textContent = isReady ? words : `${words}\n${NEEDED}`;
  console.error(words);
}
const NEEDED = "Load this page again. If that does not help: the pool needs a current "
  + "Chrome, Firefox or Safari, in a mode that allows WebAssembly. The notebooks tell "
  + "each scene in words, too.";

// --- what readers do ------------------------------------------------------------------

function send(element, event, value = null) {
  document.documentElement.dataset.idle = "no";
  busy(true);
  ask({ event, id: element.closest("[data-id]").dataset.id, value });
}
const readOf = (input) => (input.type === "checkbox" ? input.checked : input.value);
$("part").addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (!button || button.disabled || button.matches("[aria-disabled]")) return;
  if (button.dataset.at) send(button, "value", button.dataset.at);
  else if (mayClick(button)) send(button, "click");
});
// A click is for what the reader sees. So while Python starts, only the last one is
// kept; later, one that comes before the last one is shown does nothing.
function mayClick(button) {
  if (isReady) return ![asking, ...waiting].some((one) => one?.event === "click");
  const at = waiting.findIndex((one) => one.event === "click");
  if (at >= 0) waiting.splice(at, 1);
  for (const one of $("part").querySelectorAll("button")) {
    one.classList.toggle("mp-waits", one === button);
  }
  say(`Python is starting … Then it does what you have clicked: ${nameOf(button)}.`);
  return true;
}
const nameOf = (button) => button.textContent.trim() || button.title;
for (const when of ["input", "change"]) {
  $("part").addEventListener(when, ({ target }) => {
    if (target.dataset.when === when) send(target, "value", readOf(target));
  });
}
$("part").addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (key !== "Enter" || target.type !== "text") return;
  event.preventDefault(); // else the field says a second time that it has changed
  send(target, "value", target.value);
  send(target, "submit");
});
function open() {
  if (place() === shown) return;
  shown = place();
  document.documentElement.dataset.idle = "no";
  mark(shown);
  busy(isReady);
  if (!isReady) {
    waiting.length = 0; // clicks on what is no longer there
    $("part").innerHTML = drawn = first(shown);
  }
  ask({ event: "open", value: shown });
}
addEventListener("hashchange", open);
open();

// --- Python ---------------------------------------------------------------------------

const MISSING = ["WebAssembly", "Worker", "DecompressionStream"]
  .find((name) => !(name in globalThis));
const late = setTimeout(
  say, LATE, "Python is still starting. If nothing comes, load this page again.",
);
function start() {
  if (MISSING) return fail(`This browser has no ${MISSING}.`);
  const text = (id) => $(id).textContent;
  // As an address of data: from a file on disk, Chromium starts no module from a blob.
  const code = `data:text/javascript,${encodeURIComponent(text("worker"))}`;
  worker = new Worker(code, { type: "module" });
  worker.onmessage = hear;
  worker.onerror = (event) => fail(event.message ?? "Python did not start.");
  const packed = {};
  for (const one of document.querySelectorAll("script[data-packed]")) {
    packed[one.dataset.packed] = one.textContent;
  }
  worker.postMessage({ packed });
}
