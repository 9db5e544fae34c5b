// The pool in the page is large: where the screen is wide and nothing says that data is
// to be saved, it is loaded at once; else when it is asked for. It tells its height, and
// is told whether the page is dark.
for (const place of document.querySelectorAll(".playground[data-scene]")) {
  const theme = () => document.documentElement.dataset.theme;
  const frame = document.createElement("iframe");
  const start = () => {
    if (frame.src) return;
    const said = document.createElement("p"), link = place.querySelector(".start");
    said.setAttribute("role", "status");
    link.replaceWith(said);
    link.className = "";
    link.textContent = "open the pool in a page of its own";
    said.append("Python is starting … If nothing comes, ", link, ".");
    frame.title = "A block pool to play with: fork, write, and see the copy";
    frame.src = `playground.html?embed&theme=${theme()}#${place.dataset.scene}`;
    frame.hidden = true;
    frame.onload = () => {
      frame.hidden = false;
      place.querySelectorAll(":scope > :not(iframe)").forEach((each) => each.remove());
    };
    place.append(frame);
  };
  addEventListener("message", ({ data, source }) => {
    if (source === frame.contentWindow && data?.playground?.height) {
      frame.style.height = `${data.playground.height}px`;
    }
  });
  new MutationObserver(() => frame.contentWindow?.postMessage({ theme: theme() }, "*"))
    .observe(document.documentElement, { attributeFilter: ["data-theme"] });
  place.querySelector(".start").addEventListener("click", (event) => {
    if (frame.src) return; // it is the link to a page of its own by now
    event.preventDefault();
    start();
  });
  const isCheap = innerWidth > 800 && !navigator.connection?.saveData;
  if (isCheap) addEventListener("load", start);
}
// On a phone, the map and some pictures are wider than the page, and say so. The map
// begins in its middle, where the first notebooks are.
const hint = (box, words) => {
  if (box.scrollWidth <= box.clientWidth) return;
  const said = document.createElement("p");
  said.className = "scroll-hint";
  said.textContent = words;
  box.before(said);
};
for (const map of document.querySelectorAll(".mp.wide")) {
  map.scrollLeft = (map.scrollWidth - map.clientWidth) / 2;
  hint(map, "‹ The map goes on to the left and to the right: scroll it. ›");
}
addEventListener("load", () => {
  for (const output of document.querySelectorAll(".cell_output:has(.drawn)")) {
    hint(output, "The picture goes on to the right: scroll it. ›");
  }
});
