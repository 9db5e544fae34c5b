// Which pool a part of a page shows, in plain data. Stands behind page_facts.js.

// What is filled: slots one by one, or a bar, in the block or as the block.
function filledParts(block) {
  const slots = [...block.querySelectorAll(".mp-slots .mp-full")];
  if (slots.length) return slots.map((slot) => ({ box: slot, pseudo: null, hatch: "::after" }));
  const bar = block.querySelector(".mp-bar") ?? block;
  const { content } = getComputedStyle(bar, "::before");
  return content === "none" ? [] : [{ box: bar, pseudo: "::before", hatch: "::before" }];
}

// A block's rim against the page; the end of its filled part against the empty part.
function contrastsOfBlock(block) {
  const { below, ground, through } = groundOf(block);
  const style = getComputedStyle(block);
  const rim = over(readColour(style.borderTopColor), ground);
  const [part] = filledParts(block);
  let end = 21;
  if (part?.pseudo) {
    const fill = getComputedStyle(part.box, part.pseudo), behind = groundOf(part.box);
    const width = parseFloat(fill.width);
    if (0 < width && width < part.box.clientWidth - SLACK) {
      const line = over(readColour(fill.borderRightColor), behind.ground);
      end = ratio(behind.through(line), behind.through(behind.ground));
    }
  }
  return { rim: ratio(through(rim), through(below)), end };
}

// A free block is told by its number; where it has none, words say which are free.
function paleBlocks(root) {
  return [...root.querySelectorAll(".mp-held, .mp-cached")].flatMap((block) => {
    const { rim, end } = contrastsOfBlock(block);
    const what = `block ${block.dataset.block}`;
    const flaws = [];
    if (rim < 3) flaws.push(tooPale(`the rim of ${what}`, rim, 3));
    if (end < 3) flaws.push(tooPale(`the end of what is filled in ${what}`, end, 3));
    return flaws;
  });
}

// How far the pool is below the widget's own top.
function topOfStage(root) {
  const stage = root.querySelector(".mp-stage");
  return stage.getBoundingClientRect().top - root.getBoundingClientRect().top;
}

// The colour that a letter, or the filled part of a block, says a sequence with.
function colourOf(element) {
  const [part] = element.dataset.block ? filledParts(element) : [{ box: element }];
  return readColour(getComputedStyle(part.box, part.pseudo).backgroundColor).join(" ");
}

function shownPool(root) {
  const all = (selector) => [...root.querySelectorAll(selector)].filter(isVisible);
  const read = (element) => element.textContent.trim().replace(/\s+/g, " ");
  return {
    label: all(".mp-list").map((list) => list.ariaLabel),
    blocks: all("[data-block]").map((block) => {
      const own = block.querySelector(".mp-foot > :first-child, :scope > span");
      const more = block.querySelector(".mp-letters small");
      return {
        id: Number(block.dataset.block),
        holders: Number(block.dataset.holders),
        title: block.title,
        number: own && read(own),
        letters: [...block.querySelectorAll(".mp-foot .mp-chip")].map(read),
        more: more ? Number(read(more)) : 0,
        isLarge: Boolean(block.querySelector(".mp-foot")),
        hatched: filledParts(block).some(({ box, hatch }) =>
          getComputedStyle(box, hatch).backgroundImage.includes("45deg")),
        dashed: getComputedStyle(block).borderTopStyle === "dashed",
      };
    }),
    figures: all(".mp-figures > *").map(read),
    rows: all(".mp-length > :first-child").map(read),
    names: all(".mp-seq:not(.mp-gone) .mp-name").map(read),
    tables: all("[data-table]:not([data-gone])").map((table) => ({
      name: table.dataset.table,
      entries: [...table.querySelectorAll(".mp-entry, .mp-more")].map((entry) =>
        entry.lastChild.data.trim()),
    })),
    colours: all("[data-sequence]").filter(
      (one) => !one.closest(".mp-gone") && (!one.dataset.block || filledParts(one).length),
    ).map((element) => ({
      sequence: element.dataset.sequence,
      colour: colourOf(element),
      what: describe(element),
    })),
    pieces: all("[data-piece]").map((piece) => ({
      name: piece.dataset.piece,
      text: read(piece),
      title: piece.title,
      left: piece.offsetLeft,
      width: piece.offsetWidth,
    })),
  };
}
