// Log in: with a password, with the start-up token, or elsewhere.

import { form } from "../components/form.js";
import { report } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { setMe } from "../lib/me.js";
import { href } from "../lib/router.js";

//: Parts of the page, by the kind of login that the server has.
const KINDS = { password, token, elsewhere };

export const page = {
  path: "/login",
  title: "Log in",

  mount(root, context) {
    root.classList.add("login");
    const card = h("div", { class: "card login-card" });
    root.append(card);
    draw(card, context);
  },
};

async function draw(card, context) {
  const kind = await kindOf(context.api);
  const { parts, focus } = (KINDS[kind] ?? password)(context);
  fill(card, h("h1", null, "Kue"), ...parts);
  focus?.();
}

async function kindOf(api) {
  try {
    return (await api.get("/login")).kind;
  } catch (error) {
    report(error);
    return "password";
  }
}

function password({ query, api, go }) {
  const made = form({
    action: "Log in",
    fields: [
      { name: "name", label: "Name", autocomplete: "username" },
      {
        name: "password",
        label: "Password",
        type: "password",
        autocomplete: "current-password",
      },
    ],
    async submit(values) {
      setMe(await api.post("/login", values));
      go(inside(query.next), { replace: true });
    },
  });
  return { parts: [made.node], focus: made.focus };
}

function token({ query }) {
  const made = form({
    action: "Open",
    fields: [
      {
        name: "token",
        label: "Token",
        type: "password",
        required: true,
        autocomplete: "off",
        help: "The part of that address after token=",
      },
    ],
    submit(values) {
      const next = inside(query.next);
      const mark = next.includes("?") ? "&" : "?";
      // The server answers with a cookie, and the address without the token.
      window.location.assign(
        `${href(next)}${mark}token=${encodeURIComponent(values.token.trim())}`,
      );
    },
  });
  const parts = [
    query.token === "refused" &&
      h(
        "p",
        { role: "alert", class: "fault" },
        "That token is not valid. A server that was restarted has a new one.",
      ),
    h(
      "p",
      null,
      "Open the address that the server printed in its terminal or log when it started. ",
      "It ends with ",
      h("code", null, "?token=…"),
    ),
    made.node,
    h(
      "p",
      { class: "help" },
      "To log in with a name and a password instead, add a user: ",
      h("code", null, "kue user add NAME --role admin"),
    ),
  ];
  return { parts: parts.filter(Boolean), focus: made.focus };
}

function elsewhere() {
  const text = "Log in to the application that this dashboard is part of.";
  return { parts: [h("p", null, text)] };
}

//: Where to go on: a path of ours, or the first page.  Browsers leave tabs and line
//: ends out of an address, and read backslashes as slashes; what follows # is not sent.
function inside(next) {
  const isPath = typeof next === "string" && /^\/(?!\/)[!-~]*$/.test(next);
  if (!isPath || /[\\#]/.test(next) || next.startsWith("/login")) return "/";
  const { origin } = new URL(href(next), window.location.href);
  return origin === window.location.origin ? next : "/";
}
