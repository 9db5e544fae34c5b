// The pool in the page is large: where the screen is wide and nothing says that data is
// to be saved, it is loaded at once; else when it is asked for.
for (const place of document.querySelectorAll(".playground[data-page]")) {
  const start = () => {
    const frame = document.createElement("iframe");
    frame.title = "A block pool to play with: fork, write, and see the copy";
    frame.src = place.dataset.page;
    frame.hidden = true;
    frame.onload = () => {
      frame.hidden = false;
      place.querySelectorAll(":scope > :not(iframe)").forEach((each) => each.remove());
    };
    place.append(frame);
  };
  place.querySelector(".start").addEventListener("click", (event) => {
    event.preventDefault();
    event.target.textContent = "It is being loaded …";
    start();
  }, { once: true });
  const isCheap = innerWidth > 800 && !navigator.connection?.saveData;
  if (isCheap) addEventListener("load", start);
}
// On a phone, the map is wider than the page: it begins in its middle.
for (const map of document.querySelectorAll(".mp.wide")) {
  map.scrollLeft = (map.scrollWidth - map.clientWidth) / 2;
}
