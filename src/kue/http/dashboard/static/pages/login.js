// Login page: with a password, with the start-up token, or in another application.

import { form } from "../components/form.js";
import { report } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { setMe } from "../lib/me.js";
import { href } from "../lib/router.js";

//: Content of the page, by the kind of login of the server.
const KINDS = { password, token, elsewhere };

export const page = {
  path: "/login",
  title: "Log in",

  mount(root, context) {
    root.classList.add("login");
    const card = h("div", { class: "card login-card" });
    root.append(card);
    show(card, context);
  },
};

async function show(card, context) {
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
  const loginForm = form({
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
      go(safeNext(query.next), { replace: true });
    },
  });
  return { parts: [loginForm.node], focus: loginForm.focus };
}

function token({ query }) {
  const loginForm = form({
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
      const next = safeNext(query.next);
      const separator = next.includes("?") ? "&" : "?";
      // The server sets a cookie and redirects to the address without the token.
      window.location.assign(
        `${href(next)}${separator}token=${encodeURIComponent(values.token.trim())}`,
      );
    },
  });
  const parts = [
    query.token === "refused" &&
      h(
        "p",
        { role: "alert", class: "fault" },
        "Invalid token. A restarted server has a new one.",
      ),
    h(
      "p",
      null,
      "Open the address that the server printed in its terminal or log when it started. ",
      "It ends with ",
      h("code", null, "?token=…"),
    ),
    loginForm.node,
    h(
      "p",
      { class: "help" },
      "To log in with a name and a password instead, add a user: ",
      h("code", null, "kue user add NAME --role admin"),
    ),
  ];
  return { parts: parts.filter(Boolean), focus: loginForm.focus };
}

function elsewhere() {
  const text = "Log in to the application that this dashboard is part of.";
  return { parts: [h("p", null, text)] };
}

//: Where to go after the login: a path of the dashboard, or the overview.  Browsers
//: remove tabs and line ends from an address, and treat backslashes as slashes; what
//: follows # is not sent.
function safeNext(next) {
  const isPath = typeof next === "string" && /^\/(?!\/)[!-~]*$/.test(next);
  if (!isPath || /[\\#]/.test(next) || next.startsWith("/login")) return "/";
  const { origin } = new URL(href(next), window.location.href);
  return origin === window.location.origin ? next : "/";
}
