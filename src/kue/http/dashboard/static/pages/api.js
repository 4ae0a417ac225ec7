// API page: reference of the REST API, from the server's OpenAPI document.

import { report } from "../lib/api.js";
import { $, fill, h } from "../lib/dom.js";
import { operation } from "./api/operation.js";
import { schemas } from "./api/schema.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

export const page = {
  path: "/api",
  title: "API",
  nav: { label: "API", icon: "api", order: 100, key: "i" },

  mount(root, { api }) {
    const container = h("div", { class: "reading" });
    const search = h("input", {
      type: "search",
      placeholder: "Find an operation",
      "aria-label": "Find an operation",
      dataset: { search: "" },
      oninput: () => filter(container, search.value),
    });
    const address = api.url("/openapi.json");
    root.append(
      h(
        "header",
        { class: "page-head" },
        h("h1", null, "REST API"),
        h(
          "span",
          { class: "actions" },
          search,
          h(
            "a",
            { class: "button", href: address, dataset: { outside: "1" } },
            "openapi.json",
          ),
        ),
      ),
      container,
    );
    api
      .get("/openapi.json")
      .then((document) => {
        draw(container, document);
        // The target of the fragment exists only now.
        const target = window.location.hash.slice(1);
        if (target) window.document.getElementById(target)?.scrollIntoView();
      })
      .catch(report);
  },
};

function draw(container, document) {
  const groups = document.tags.map((tag) => ({
    tag,
    operations: operationsOf(document, tag.name),
  }));
  const shown = groups.filter(({ operations }) => operations.length);
  fill(
    container,
    h("p", { class: "lead" }, document.info.description),
    h(
      "nav",
      { class: "reading-nav", "aria-label": "Parts of the API" },
      shown.map(({ tag }) => h("a", { href: `#${tag.name}` }, tag.name)),
      h("a", { href: "#schemas" }, "schemas"),
    ),
    shown.map(({ tag, operations }) =>
      h(
        "section",
        { id: tag.name, class: "card" },
        h(
          "header",
          { class: "card-head" },
          h("h2", null, tag.name),
          h("span", { class: "soft" }, tag.description),
        ),
        operations.map((one) => operation(one, document)),
      ),
    ),
    schemas(document),
  );
}

function operationsOf(document, tag) {
  const found = [];
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      const one = methods[method];
      if (one?.tags.includes(tag)) found.push({ path, method, ...one });
    }
  }
  return found;
}

function filter(container, text) {
  const words = text.toLowerCase().split(/\s+/);
  for (const section of container.querySelectorAll("section")) {
    let count = 0;
    for (const one of section.querySelectorAll("[data-words]")) {
      one.hidden = !words.every((word) => one.dataset.words.includes(word));
      count += one.hidden ? 0 : 1;
    }
    section.hidden = count === 0;
  }
  const nav = $(".reading-nav", container);
  if (nav) nav.hidden = Boolean(text);
}
