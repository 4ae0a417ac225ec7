// Keyboard shortcuts, while no text is typed: "j", "?", "g j" (one after another).

//: Milliseconds within which the second of two keys must follow.
const SEQUENCE_MS = 1_000;
const TEXT_FIELDS =
  "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]";

const layers = [];
let first = "";
let since = 0;

//: Add shortcuts: {"r": {label: "Retry", run: fn}}.  The last added take precedence.
//: Returns a function that removes them.
export function addShortcuts(map, group = "") {
  const layer = { map, group };
  layers.push(layer);
  return () => {
    const index = layers.indexOf(layer);
    if (index >= 0) layers.splice(index, 1);
  };
}

//: All current shortcuts, for the help: [{group, keys: [[key, label]]}].
export function allShortcuts() {
  return [...layers].reverse().map(({ map, group }) => ({
    group,
    keys: Object.entries(map)
      .filter(([, one]) => one.label)
      .map(([key, one]) => [key, one.label]),
  }));
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const isSecond = first && Date.now() - since < SEQUENCE_MS;
  const pressed = isSecond ? `${first} ${event.key}` : event.key;
  const found = find(pressed) ?? find(event.key);
  first = "";
  if (found) {
    // Enter and Space on a button or a link activate it.
    const isControl = event.target.closest?.("a, button, summary, [role=tab]");
    if (isControl && (event.key === "Enter" || event.key === " ")) return;
    event.preventDefault();
    found.run(event);
  } else if (isPrefix(event.key)) {
    first = event.key;
    since = Date.now();
  }
});

function find(key) {
  for (const { map } of [...layers].reverse()) {
    if (Object.hasOwn(map, key)) return map[key];
  }
  return undefined;
}

function isPrefix(key) {
  return layers.some(({ map }) =>
    Object.keys(map).some((one) => one.startsWith(`${key} `)),
  );
}

function isTyping(node) {
  // A field of a dialog that was just closed keeps the focus for a moment.
  return Boolean(node.closest?.(TEXT_FIELDS)) && !node.closest("dialog:not([open])");
}
