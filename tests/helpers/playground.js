// What is seen of the open part, from top to bottom: texts with tags, and controls.
() => {
  const words = (one, selector) => one.querySelector(selector).textContent;
  const kinds = {
    "widget-html": (one) => one.firstElementChild.innerHTML,
    "widget-button": (one) => ["button", one.title, one.textContent, !one.disabled],
    "widget-toggle-buttons": (one) => [
      "buttons", words(one, "[aria-pressed=true]"), !one.querySelector("button").disabled,
    ],
    "widget-checkbox": (one) => ["checkbox", words(one, "span"), one.querySelector("input").checked],
    "widget-slider": (one) => ["slider", words(one, "label"), words(one, "output")],
    "widget-dropdown": (one) => {
      const { selectedOptions, options } = one.querySelector("select");
      return ["list", selectedOptions[0].textContent, options.length];
    },
    "widget-text": (one) => {
      const { type, value } = one.querySelector("input");
      return [type, words(one, "label"), value];
    },
  };
  return [...document.querySelectorAll("#part [data-id]")]
    .filter((one) => one.checkVisibility() && !one.matches(".widget-box"))
    .map((one) => {
      const kind = Object.keys(kinds).find((name) => one.classList.contains(name));
      return kinds[kind](one);
    });
}
