// The page of /pool: follows the server's messages, and draws the latest state.
"use strict";
const $ = (id) => document.getElementById(id);
const NUM_BLOCKS = Number($("page").parentElement.dataset.blocks);
const SIZE = Number($("page").parentElement.dataset.size);
const MOST_BLOCKS = 1024; // drawn one by one; of more, each cell stands for several
const MOST_CELLS = 400, MOST_ROWS = 50, MOST_STRIP = 64;
let key = "", live = null, frames = null, at = 0;
let zoom = { kind: "all" };

// A state, from what the server tells of it and the state before: see pool_watch.py.
function read(message, before) {
  const tables = new Map(), fresh = new Set();
  for (const [request, number, prompt, hits, tokens, kept, more] of message.tables) {
    const name = number ? `${request}·${number}` : `${request}`;
    const old = kept ? before.tables.get(name).ids.slice(0, kept) : [];
    const ids = [...old, ...more];
    if (before) more.forEach((id) => fresh.add(id));
    tables.set(name, { request, prompt, hits, tokens, ids });
  }
  const holders = new Map(), filled = new Map();
  for (const [name, { ids, tokens }] of tables) {
    ids.forEach((id, entry) => {
      holders.set(id, [...(holders.get(id) ?? []), name]);
      const here = Math.min(SIZE, tokens - entry * SIZE);
      filled.set(id, Math.max(here, filled.get(id) ?? 0));
    });
  }
  return { ...message, tables, fresh, holders, filled };
}

// Blocks by who shares them: for each group of holders, its blocks in order.
function shares(state) {
  const groups = new Map();
  for (const { ids } of state.tables.values()) {
    for (const id of ids) {
      const names = state.holders.get(id);
      if (names.length < 2) continue;
      const group = groups.get(names.join()) ?? { names, ids: new Set() };
      groups.set(names.join(), group);
      group.ids.add(id);
    }
  }
  return [...groups.values()].map(({ names, ids }) => ({ names, ids: [...ids] }));
}

// Elements are kept and written anew, so that focus and titles stay.
function fill(parent, items, tag, write) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(document.createElement(tag));
  items.forEach((item, index) => write(parent.children[index], item, index));
}
function set(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (value === null) element.removeAttribute(name);
    else if (element.getAttribute(name) !== `${value}`) element.setAttribute(name, value);
  }
}
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function part(parent, kind, tag = "span") {
  const found = parent.querySelector(`:scope > .${kind}`);
  if (found) return found;
  const made = document.createElement(tag);
  made.className = kind;
  return parent.appendChild(made);
}
const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const colour = (name) => `c${parseInt(name) % 8}`;

function block(state, element, id) {
  const names = state.holders.get(id) ?? [];
  const kinds = ["b"];
  if (names.length) kinds.push(colour(names[0]));
  if (names.length > 1) kinds.push("shared");
  if (state.fresh.has(id)) kinds.push("new");
  const full = state.filled.get(id) ?? 0;
  const held = names.length ? `held by ${names.join(", ")}; ${full} of ${SIZE} slots filled` : "free";
  set(element, {
    class: kinds.join(" "), title: `block ${id}: ${held}`, "data-block": id,
    "data-holders": names.length, style: `--f:${(100 * full) / SIZE}%`,
  });
}
function cell(state, element, id, isNamed) {
  set(element, { role: "listitem", class: "" });
  block(state, part(element, "b", "i"), id);
  if (isNamed) say(part(element, "id"), `${id}`);
  else element.querySelector(".id")?.remove();
}
function chips(parent, names) {
  const shown = names.slice(0, 12);
  const more = names.length > shown.length ? [`+${names.length - shown.length}`] : [];
  fill(parent, [...shown, ...more], "span", (element, name) => {
    set(element, { class: name.startsWith("+") ? "" : `chip ${colour(name)}` });
    say(element, name);
  });
}
function strip(state, parent, ids) {
  fill(parent, ids.slice(0, MOST_STRIP), "i", (element, id) => block(state, element, id));
}

function drawMap(state) {
  const map = $("map"), found = { ids: [], words: "" };
  const table = state.tables.get(zoom.name);
  const isNamed = zoom.kind === "request" || zoom.kind === "prefix";
  if (zoom.kind === "request") {
    found.ids = table?.ids ?? [];
    found.words = table ? `The block table of request ${zoom.name}, in order` : `Request ${zoom.name} holds no block now`;
  } else if (zoom.kind === "prefix") {
    const group = shares(state).find(({ ids }) => ids.includes(zoom.first));
    found.ids = group?.ids ?? [zoom.first];
    found.words = group ? `Blocks that ${group.names.join(", ")} share` : "Nobody shares this block now";
  } else {
    const start = zoom.start ?? 0;
    const stop = zoom.kind === "range" ? Math.min(start + MOST_BLOCKS, NUM_BLOCKS) : NUM_BLOCKS;
    found.ids = Array.from({ length: stop - start }, (_, index) => start + index);
    found.words = `Blocks ${start} to ${stop - 1}, of ${counted(SIZE, "token")} each`;
  }
  $("all").hidden = zoom.kind === "all";
  const isDense = !isNamed && found.ids.length > MOST_BLOCKS;
  $("single").hidden = isDense;
  $("dense").hidden = !isDense;
  const kind = isDense ? "dense" : isNamed ? "named" : "single";
  if (map.className !== kind) map.replaceChildren();
  map.className = kind;
  map.ariaLabel = `${state.used} of ${NUM_BLOCKS} blocks are held`;
  if (!isDense) {
    say($("shown"), found.words);
    fill(map, found.ids, "div", (element, id) => cell(state, element, id, isNamed));
    return;
  }
  const each = 2 ** Math.ceil(Math.log2(NUM_BLOCKS / MOST_CELLS));
  say($("shown"), `${found.words}. A cell stands for ${each}; choose one to see them.`);
  const starts = found.ids.filter((id) => id % each === 0);
  fill(map, starts, "div", (element, start, index) => {
    set(element, { role: "listitem" });
    const stop = Math.min(start + each, NUM_BLOCKS);
    let held = 0, several = 0;
    for (let id = start; id < stop; id++) {
      const number = state.holders.get(id)?.length ?? 0;
      held += number > 0;
      several += number > 1;
    }
    const share = (number) => `${(100 * number) / (stop - start)}%`;
    set(part(element, "many", "button"), {
      title: `blocks ${start} to ${stop - 1}: ${held} held, ${several} of them by several`,
      "aria-label": `blocks ${start} to ${stop - 1}: ${held} held`,
      "data-start": start, "data-held": held, tabindex: index ? -1 : 0,
      style: `width:100%;--f:${share(held)};--s:${share(several)}`,
    });
  });
}

function drawLists(state) {
  const groups = shares(state).sort((a, b) => b.ids.length - a.ids.length);
  rows($("shares"), groups, "No block has several holders.", (button, group) => {
    set(button, { "data-zoom": "prefix", "data-first": group.ids[0] });
    set(button, { "aria-pressed": zoom.kind === "prefix" && group.ids.includes(zoom.first) });
    chips(part(button, "chips"), group.names);
    const words = `${counted(group.ids.length, "block")}, held by each of ${group.names.length}`;
    say(part(button, "words"), words);
    set(button, { "aria-label": `${words}: ${group.names.join(", ")}` });
    strip(state, part(button, "strip"), group.ids);
  });
  rows($("tables"), [...state.tables], "No request runs.", (button, [name, table]) => {
    set(button, { "data-zoom": "request", "data-name": name });
    set(button, { "aria-pressed": zoom.kind === "request" && zoom.name === name });
    chips(part(button, "chips"), [name]);
    const found = table.hits ? `, of which ${table.hits} were found` : "";
    const words = `${counted(table.tokens, "token")} in ${counted(table.ids.length, "block")}; prompt of ${table.prompt}${found}`;
    say(part(button, "words"), words);
    set(button, { "aria-label": `request ${name}: ${words}` });
    strip(state, part(button, "strip"), table.ids);
  });
  const line = state.waiting.slice(0, MOST_ROWS);
  const more = state.waiting.length - line.length;
  const items = line.map(([request, prompt, lost]) =>
    [`${request}`, `prompt of ${prompt}${lost ? `, preempted ${lost} times` : ""}`]);
  if (more) items.push(["", `and ${counted(more, "more request")}`]);
  if (!items.length) items.push(["", "Nobody waits."]);
  fill($("waiting"), items, "li", (element, [name, words]) => {
    element.className = name ? "" : "none";
    chips(part(element, "chips"), name ? [name] : []);
    say(part(element, "words"), words);
  });
}
function rows(list, items, none, write) {
  const shown = items.slice(0, MOST_ROWS), more = items.length - shown.length;
  const last = more ? `and ${more} more` : none;
  fill(list, more || !items.length ? [...shown, last] : shown, "li", (element, item) => {
    const isWords = typeof item === "string";
    if (isWords !== !element.querySelector("button")) element.replaceChildren();
    element.className = isWords ? "none" : "";
    if (isWords) say(element, item);
    else {
      if (!element.firstElementChild) element.textContent = "";
      write(part(element, "row", "button"), item);
    }
  });
}

function drawFigures(state) {
  const hits = state.prefix_cache_queries
    ? `${Math.round((100 * state.prefix_cache_hits) / state.prefix_cache_queries)} %` : "none";
  const other = state.used - state.holders.size;
  const figures = [
    ["step", "step", state.num_steps],
    ["used", `of ${NUM_BLOCKS.toLocaleString("en")} blocks held`, state.used],
    ["cached", "free, can be found", state.cached],
    ["shared", "blocks shared", [...state.holders.values()].filter((names) => names.length > 1).length],
    ["running", "requests run", new Set([...state.tables.values()].map((t) => t.request)).size],
    ["waiting", "requests wait", state.waiting.length],
    ["hits", "of prompt tokens found", hits],
    ["copies", "blocks copied", state.num_copied_blocks],
    ["preemptions", "preemptions", state.num_preemptions],
    ["generated", "tokens generated", state.generation_tokens],
  ];
  if (other) figures.push(["other", "blocks held by others", other]);
  fill($("figures"), figures, "div", (element, [name, words, value]) => {
    say(part(element, "dt", "dt"), words);
    const shown = part(element, "dd", "dd");
    set(shown, { "data-figure": name });
    say(shown, value.toLocaleString("en"));
  });
}

function draw() {
  const state = frames ? frames[at] : live;
  if (!state) return;
  drawFigures(state);
  drawMap(state);
  drawLists(state);
  $("pause").textContent = frames ? "Go on" : "Pause";
  $("back").disabled = !frames || at === 0;
  $("on").disabled = !frames || at === frames.length - 1;
  set($("at"), { max: frames ? frames.length - 1 : 0 });
  $("at").disabled = !frames;
  $("at").value = frames ? at : 0;
  say($("status"), frames ? `paused at step ${state.num_steps}, ${ago(frames.length - 1 - at)}` : "live");
}

const ago = (n) => (n ? `${counted(n, "state")} before the last` : "the last");
const ask = (path) => fetch(path, key ? { headers: { Authorization: `Bearer ${key}` } } : {});
async function pause() {
  if (frames) frames = null;
  else {
    const answer = await ask("pool/steps");
    if (!answer.ok) return say($("status"), "the last steps could not be read");
    let before = null;
    const states = (await answer.json()).map((message) => (before = read(message, before)));
    if (states.length) [frames, at] = [states, states.length - 1];
  }
  draw();
}
function go(to) {
  if (!frames) return;
  at = Math.max(0, Math.min(frames.length - 1, to));
  draw();
}

// Messages of the server, one after the other, until it ends them.
async function* messages(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) yield JSON.parse(part.slice("data: ".length));
  }
}
async function follow() {
  for (;;) {
    try {
      const answer = await ask("pool/events");
      if (answer.status === 401) return enter("the server does not know this key");
      if (!answer.ok) throw new Error((await answer.json()).error.message);
      [$("page").hidden, live] = [false, null];
      for await (const message of messages(answer)) {
        live = read(message, live);
        if (!frames) draw();
      }
      say($("status"), "the server has stopped; trying again");
    } catch (error) {
      say($("status"), `${error.message}; trying again`);
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}
function enter(words) {
  say($("status"), words);
  $("door").hidden = false;
  $("key").focus();
}

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key").value;
  $("door").hidden = true;
  follow();
});
$("pause").addEventListener("click", pause);
$("back").addEventListener("click", () => go(at - 1));
$("on").addEventListener("click", () => go(at + 1));
$("at").addEventListener("input", (event) => go(Number(event.target.value)));
$("all").addEventListener("click", () => { zoom = { kind: "all" }; draw(); });
document.addEventListener("click", ({ target }) => {
  const many = target.closest(".many"), row = target.closest(".row");
  if (many) zoom = { kind: "range", start: Math.floor(many.dataset.start / MOST_BLOCKS) * MOST_BLOCKS };
  else if (row?.ariaPressed === "true") zoom = { kind: "all" };
  else if (row?.dataset.zoom === "request") zoom = { kind: "request", name: row.dataset.name };
  else if (row) zoom = { kind: "prefix", first: Number(row.dataset.first) };
  else return;
  draw();
});
document.addEventListener("keydown", (event) => {
  const { target } = event;
  const steps = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (target.closest("#map") && steps) {
    const all = [...document.querySelectorAll(".many")];
    all[all.indexOf(target) + steps]?.focus();
  } else if (target.closest("button, input")) return;
  else if (event.key === " ") pause();
  else if (steps) go(at + steps);
  else return;
  event.preventDefault();
});
if (document.querySelector("main").dataset.key === "yes") enter("this server asks for a key");
else follow();
