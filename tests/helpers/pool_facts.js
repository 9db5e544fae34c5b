// Which pool a part of a page shows, in plain data. Stands behind page_facts.js.

function drawnPart(block) {
  return [block, ...block.querySelectorAll("*")].find(
    (one) => getComputedStyle(one).borderTopStyle !== "none",
  );
}

// A block's rim against the page; the end of its filled part against the empty part.
function contrastsOfBlock(block) {
  const box = drawnPart(block);
  if (!box) return { rim: 1, end: 1 };
  const { below, ground, through } = groundOf(box);
  const style = getComputedStyle(box), fill = getComputedStyle(box, "::before");
  const rim = over(readColour(style.borderTopColor), ground);
  const hasLine = fill.borderRightStyle !== "none", width = parseFloat(fill.width);
  const end = hasLine ? fill.borderRightColor : fill.backgroundColor;
  const isPart = 0 < width && width < box.clientWidth - SLACK;
  const filled = over(readColour(fill.backgroundColor), ground);
  return {
    rim: ratio(through(rim), through(below)),
    end: isPart ? ratio(through(over(readColour(end), filled)), through(ground)) : 21,
  };
}

function paleBlocks(root) {
  return [...root.querySelectorAll("[data-block]")].flatMap((block) => {
    const { rim, end } = contrastsOfBlock(block);
    const what = `block ${block.dataset.block}`;
    const flaws = [];
    if (rim < 3) flaws.push(tooPale(`the rim of ${what}`, rim, 3));
    if (end < 3) flaws.push(tooPale(`the end of what is filled in ${what}`, end, 3));
    return flaws;
  });
}

// The colour that an element, or the drawn part of a block, says a sequence with.
function colourOf(element) {
  const box = element.dataset.block ? drawnPart(element) : element;
  const pseudo = element.dataset.block ? "::before" : null;
  return readColour(getComputedStyle(box, pseudo).backgroundColor).join(" ");
}

function shownPool(root) {
  const all = (selector) => [...root.querySelectorAll(selector)];
  const read = (element) => element.textContent.trim().replace(/\s+/g, " ");
  return {
    label: all("[role=list]").map((list) => list.ariaLabel),
    blocks: all("[data-block]").map((block) => {
      const box = drawnPart(block);
      return {
        id: Number(block.dataset.block),
        holders: Number(block.dataset.holders),
        title: block.title,
        text: read(block),
        hatched: getComputedStyle(box, "::before").backgroundImage !== "none",
        dashed: getComputedStyle(box).borderTopStyle === "dashed",
      };
    }),
    figures: all(".mp-figures > *").map(read),
    rows: all("b[data-sequence]").map((chip) => read(chip.parentElement)),
    tables: all("table").map((table) => ({
      name: read(table.querySelector("[data-sequence]")),
      entries: [...table.querySelectorAll("td")].map(read),
    })),
    colours: all("[data-sequence]").map((element) => ({
      sequence: element.dataset.sequence,
      colour: colourOf(element),
      what: describe(element),
    })),
  };
}
