// DOM elements from data.  Text becomes text nodes; nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
//: Set as properties: the attribute is only the initial value.
const PROPERTIES = new Set(["value", "checked", "selected", "indeterminate", "open"]);

//: h("a", {class: "button", href: "/jobs", onclick: f}, "Jobs", [more], null)
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

//: The same for SVG: svg("path", {d: "M0 0"}).
export function svg(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

//: Replace the children of *node*.
export function fill(node, ...children) {
  node.replaceChildren(...nodes(children));
  return node;
}

//: Replace the children of *node* by what make() returns, if *value* differs from the
//: last time: a replaced button loses the focus.
export function fillIfChanged(node, value, make) {
  const key = JSON.stringify(value);
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  fill(node, make());
}

export function $(selector, root = document) {
  return root.querySelector(selector);
}

//: Set the text of a node, if it differs.
export function setText(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

let lastId = 0;
//: An id that no other element of the page has, for labels to refer to.
export function uid(prefix = "id") {
  lastId += 1;
  return `${prefix}-${lastId}`;
}

function build(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) set(node, name, value);
  node.append(...nodes(children));
  return node;
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (name === "open") node.open = false;
  } else if (name.startsWith("on")) {
    node.addEventListener(name.slice(2), value);
  } else if (name === "class") {
    node.setAttribute("class", [value].flat().filter(Boolean).join(" "));
  } else if (name === "dataset") {
    for (const [key, one] of Object.entries(value)) node.dataset[key] = one;
  } else if (name === "style") {
    for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
  } else if (PROPERTIES.has(name) && name in node) {
    node[name] = value;
  } else if (name === "href" && !isLink(value)) {
    throw new Error(`not a link: ${value}`);
  } else {
    node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
  }
}

function isLink(address) {
  return /^(https?:\/\/|\/|\?|#|blob:)/i.test(String(address));
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter(
      (child) =>
        child !== null && child !== undefined && child !== false && child !== true,
    )
    .map((child) =>
      child instanceof Node ? child : document.createTextNode(String(child)),
    );
}
