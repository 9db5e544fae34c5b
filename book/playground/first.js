// What can be done before the rest of the page is read: the first picture, and the theme.
"use strict";
const $ = (id) => document.getElementById(id);
const PLACES = [/* PLACES */];
const SCENES = PLACES.filter((one) => !["cow", "play", "simulator"].includes(one));
// Of each place: its title; the file and the title of the notebook that it is from.
const TITLES = /* TITLES */;
const place = () => {
  const asked = decodeURIComponent(location.hash.slice(1));
  return PLACES.includes(asked) ? asked : PLACES[0];
};
const isEmbedded = new URLSearchParams(location.search).has("embed");
document.body.classList.toggle("embedded", isEmbedded);
$("status").textContent = "Python is starting … You can click already.";

// In the site, the title leads to the front page, and each place to its notebook.
const isInSite = document.documentElement.hasAttribute("data-in-site");
if (isInSite && !isEmbedded) {
  $("home").href = "index.html";
  $("home").hidden = false;
  $("from").hidden = false;
}

function mark(current) {
  const [, page, title] = TITLES[current];
  const from = $("from").querySelector("a");
  if (isInSite) from.href = `notebooks/${page}.html`;
  from.textContent = title;
  $("order").hidden = current === "simulator"; // it has no block that one can see
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.dataset.of === "SCENES" ? SCENES : [link.dataset.of];
    if (own.includes(current)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
function setTheme(theme) {
  document.documentElement.setAttribute("theme", theme);
  $("theme").textContent = theme === "dark" ? "Light" : "Dark";
}
// The theme: what the address asks for; else what the reader has chosen, here or in the
// site, which stores it by the same names; else the system's.
const stored = (name, value) => {
  try {
    if (value) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch { return null; } // a browser may forbid it
};
const isDark = matchMedia("(prefers-color-scheme: dark)");
function wanted() {
  const asked = new URLSearchParams(location.search).get("theme");
  const chosen = [asked, stored("mode")].find((one) => ["light", "dark"].includes(one));
  return chosen ?? (isDark.matches ? "dark" : "light");
}
setTheme(wanted());
isDark.addEventListener("change", () => setTheme(wanted()));
$("theme").onclick = () => {
  setTheme(document.documentElement.getAttribute("theme") === "dark" ? "light" : "dark");
  const theme = document.documentElement.getAttribute("theme");
  stored("mode", theme);
  stored("theme", theme);
};
addEventListener("message", ({ data }) => data?.theme && setTheme(data.theme));
// The page around an embedded one is told how high it is.
if (parent !== window) {
  new ResizeObserver(() => parent.postMessage(
    { playground: { height: Math.ceil(document.body.getBoundingClientRect().height) } }, "*",
  )).observe(document.body);
}
mark(place());
