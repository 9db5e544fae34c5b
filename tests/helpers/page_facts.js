// What a part of a page says of itself: where its boxes are, and how well it is read.
// page_facts.py calls these functions inside the page. Each takes the part's outermost
// element, `root`, and returns its flaws: every flaw is a sentence.

const BOXES =
  "button, input, select, textarea, a[href], summary, [role=slider], [role=listitem]";
const SLACK = 1; // pixels: edges are rounded
const HIDES = ["hidden", "clip"];
const SCROLLS = ["auto", "scroll"];
// What is meant to be scrolled says so by its role.
const MOVES_DOWN = ["list", "log"];
const MOVES_ASIDE = ["group"];

function isVisible(element) {
  return element.checkVisibility({ visibilityProperty: true });
}

function describe(element) {
  const tag = element.tagName.toLowerCase();
  const said =
    element.ariaLabel || element.textContent.trim() || element.title || element.value;
  const short = String(said ?? "").replace(/\s+/g, " ").slice(0, 40);
  return `${element.role ?? tag} "${short}"`;
}

function boxOf(element) {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  return { left, top, right, bottom };
}

function middleOf(box) {
  const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
  return { left: x, top: y, right: x, bottom: y };
}

// Inside its border and its scrollbar: this is what it lets through.
function roomIn(element) {
  const box = element.getBoundingClientRect();
  const left = box.left + element.clientLeft;
  const top = box.top + element.clientTop;
  const right = left + element.clientWidth;
  return { left, top, right, bottom: top + element.clientHeight };
}

function beyond(box, room) {
  const across = Math.max(room.left - box.left, box.right - room.right);
  const down = Math.max(room.top - box.top, box.bottom - room.bottom);
  return { aside: across > SLACK, by: Math.max(across, down) };
}

function common(box, other) {
  return {
    left: Math.max(box.left, other.left),
    top: Math.max(box.top, other.top),
    right: Math.min(box.right, other.right),
    bottom: Math.min(box.bottom, other.bottom),
  };
}

function isEmpty(box) {
  return box.right - box.left <= SLACK || box.bottom - box.top <= SLACK;
}

// Text for screen readers alone lies in a box of one pixel.
function isForListeners(element, root) {
  for (let at = element; at !== root; at = at.parentElement) {
    const box = boxOf(at);
    if (box.right - box.left <= 1 && box.bottom - box.top <= 1) return true;
  }
  return false;
}

function textNodes(root) {
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest("select, style, script")) continue;
    if (isVisible(element) && !isForListeners(element, root)) found.push(node);
  }
  return found;
}

// Controls, the items of lists, and lines of text.
function partsOf(root) {
  const parts = [];
  for (const element of root.querySelectorAll(BOXES)) {
    if (!isVisible(element)) continue;
    const isKnob = element.role === "slider"; // its middle is on the track
    const box = isKnob ? middleOf(boxOf(element)) : boxOf(element);
    parts.push({ element, box, what: describe(element) });
  }
  const range = document.createRange();
  for (const node of textNodes(root)) {
    range.selectNodeContents(node);
    for (const { left, right, top, bottom } of range.getClientRects()) {
      if (right - left <= SLACK) continue; // it may be a space at a line's end
      const quarter = (bottom - top) / 4; // the letters; some fonts have tall lines
      const box = { left, right, top: top + quarter, bottom: bottom - quarter };
      const what = `text "${node.data.trim().slice(0, 40)}"`;
      parts.push({ element: node.parentElement, node, box, what });
    }
  }
  return parts;
}

// A text may end in an ellipsis if a title says at least as much.
function isToldInATitle(part, at) {
  if (!part.node || getComputedStyle(at).textOverflow !== "ellipsis") return false;
  const title = part.element.closest("[title]")?.title ?? "";
  return title.length >= part.node.data.trim().length;
}

// Follow a part outwards, from box to box. Sets part.seen to what is left of its box.
function flawOfPlace(part, root) {
  part.seen = part.box;
  const parent = part.node ? part.element : part.element.parentElement;
  for (let at = parent; at !== root.parentElement; at = at.parentElement) {
    const { display, overflowX, overflowY } = getComputedStyle(at);
    if (/^(inline|contents|table-row|table-row-group)$/.test(display)) continue;
    if (!at.offsetWidth || !at.offsetHeight) continue; // what is placed from a corner
    const closed = [...HIDES, ...SCROLLS].includes(overflowX);
    const room = closed ? roomIn(at) : boxOf(at);
    const { aside, by } = beyond(part.seen, room);
    if (closed) part.seen = common(part.seen, room);
    if (by <= SLACK) continue;
    const where = `by ${by.toFixed(0)} px: ${describe(at)}`;
    if (!closed) return `${part.what} leaves its container ${where}`;
    const scrolls = SCROLLS.includes(overflowX) || SCROLLS.includes(overflowY);
    const meant = aside ? MOVES_ASIDE : MOVES_DOWN;
    if (scrolls && !meant.includes(at.role))
      return `${part.what} needs scrolling ${where}`;
    if (!scrolls && !isToldInATitle(part, at))
      return `${part.what} is cut off ${where}`;
    if (isEmpty(part.seen)) return null;
  }
  return null;
}

function flawsOfOverlap(parts) {
  const flaws = [];
  const holds = (outer, inner) => !outer.node && outer.element.contains(inner.element);
  const seen = parts.filter((part) => !isEmpty(part.seen));
  seen.forEach((part, index) => {
    for (const other of seen.slice(index + 1)) {
      if (isEmpty(common(part.seen, other.seen))) continue;
      if (part.node && part.node === other.node) continue; // two lines of one text
      if (holds(part, other) || holds(other, part)) continue; // a button and its text
      flaws.push(`${part.what} overlaps ${other.what}`);
    }
  });
  return flaws;
}

const pen = document.createElement("canvas").getContext("2d", {
  willReadFrequently: true,
});

// The text inside a field, which is no part of the document; and the largest number.
function flawOfField(field) {
  if (["checkbox", "radio", "range"].includes(field.type)) return null;
  const isChosen = field.tagName === "SELECT", isNumber = field.type === "number";
  let text = isChosen ? (field.selectedOptions[0]?.text ?? "") : field.value;
  if (isNumber && field.max.length > text.length) text = field.max;
  const style = getComputedStyle(field);
  pen.font = style.font;
  pen.letterSpacing = style.letterSpacing.replace("normal", "0px");
  pen.wordSpacing = style.wordSpacing.replace("normal", "0px");
  const hasArrows = isNumber || (isChosen && style.appearance !== "none");
  const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
  const room = field.clientWidth - padding - (hasArrows ? 16 : 0);
  const wanted = pen.measureText(text).width;
  if (wanted <= room + SLACK) return null;
  return `the value "${text}" needs ${wanted.toFixed(0)} px of ${room.toFixed(0)} px`;
}

function fieldsOf(root) {
  return [...root.querySelectorAll("input, select, textarea")].filter(isVisible);
}

function layoutFlaws(root) {
  const parts = partsOf(root);
  const places = parts.map((part) => flawOfPlace(part, root));
  const values = fieldsOf(root).map(flawOfField);
  return [...places, ...values, ...flawsOfOverlap(parts)].filter(Boolean);
}

// Colours are [red, green, blue, opacity]; the first three from 0 to 255.
const known = new Map();
function readColour(text) {
  if (!known.has(text)) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, opacity] = pen.getImageData(0, 0, 1, 1).data;
    known.set(text, [red, green, blue, opacity / 255]);
  }
  return known.get(text);
}

function over(above, below) {
  const share = above[3];
  const mixed = [0, 1, 2].map((i) => share * above[i] + (1 - share) * below[i]);
  return [...mixed, 1];
}

function faded(colour, opacity, below) {
  return over([...colour.slice(0, 3), opacity], below);
}

// `below`: what an element is painted on. `ground`: the same with its background.
function groundOf(element) {
  if (!element) return { ground: [255, 255, 255, 1], through: (colour) => colour };
  const outer = groundOf(element.parentElement);
  const style = getComputedStyle(element);
  const below = outer.ground, opacity = Number(style.opacity);
  const ground = over(readColour(style.backgroundColor), below);
  // An element's opacity fades all that it holds, and so does that of its parents.
  const through = (colour) => outer.through(faded(colour, opacity, below));
  return { below, ground, through };
}

function luminance(colour) {
  const [red, green, blue] = colour.slice(0, 3).map((channel) => {
    const value = channel / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function ratio(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

// How well the ink of an element, or of its ::before, is told from its ground.
function contrastOf(element, pseudo = null) {
  const { ground, through } = groundOf(element);
  const ink = over(readColour(getComputedStyle(element, pseudo).color), ground);
  return ratio(through(ink), through(ground));
}

function wantedOf(element) {
  const { fontSize, fontWeight } = getComputedStyle(element);
  const size = parseFloat(fontSize); // 24 px are 18 points, 18.66 px are 14
  return size >= 24 || (size >= 18.66 && Number(fontWeight) >= 700) ? 3 : 4.5;
}

function liesOnAPicture(element, root) {
  for (let at = element; at !== root.parentElement; at = at.parentElement) {
    if (getComputedStyle(at).backgroundImage.includes("gradient")) return true;
  }
  return false;
}

function tooPale(what, contrast, wanted) {
  return `${what} has a contrast of ${contrast.toFixed(2)}, wanted ${wanted}`;
}

// What `ask` says of the part while the page is written in each of these ways. Nothing
// moves slowly meanwhile: where a box is asked for, it is where it stays.
function inEachText(root, texts, ask) {
  const sheet = document.head.appendChild(document.createElement("style"));
  const said = {};
  for (const [name, css] of Object.entries(texts)) {
    sheet.textContent = `${css} * {transition: none !important}`;
    said[name] = ask(root);
  }
  sheet.remove();
  return said;
}

function paleParts(root) {
  const flaws = [];
  const want = (least, contrast, what) => {
    if (contrast < least) flaws.push(tooPale(what, contrast, least));
  };
  const writes = textNodes(root).map((node) => node.parentElement);
  for (const element of new Set([...writes, ...fieldsOf(root)])) {
    if (element.closest(":disabled")) continue;
    want(wantedOf(element), contrastOf(element), describe(element));
    if (liesOnAPicture(element, root)) flaws.push(`${describe(element)} on a picture`);
  }
  for (const element of root.querySelectorAll("*")) {
    const { content } = getComputedStyle(element, "::before");
    if (!/^".+"$/.test(content) || !isVisible(element)) continue;
    want(3, contrastOf(element, "::before"), `the sign in ${describe(element)}`);
  }
  return flaws;
}
