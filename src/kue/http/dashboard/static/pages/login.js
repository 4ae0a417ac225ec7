// Say who you are.

import { form } from "../components/form.js";
import { h } from "../lib/dom.js";
import { become, whoAmI } from "../lib/me.js";

export const page = {
  path: "/login",
  title: "Log in",

  mount(root, { query, api, go }) {
    root.classList.add("login");
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
        try {
          become(await api.post("/login", values));
        } catch (error) {
          if (!error.isMissing) throw error;
          await ask();
        }
        go(inside(query.next), { replace: true });
      },
    });
    root.append(
      h("div", { class: "card login-card" }, h("h1", null, "Kue"), made.node),
    );
    made.focus();
  },
};

//: Where there are no accounts, the application around us may know who it is.
async function ask() {
  try {
    await whoAmI();
  } catch (error) {
    if (error.status !== 401) throw error;
    throw new Error("log in to the application that this dashboard is part of");
  }
}

//: Where to go on: a path of ours, or the first page.
function inside(next) {
  const isPath = typeof next === "string" && /^\/(?![/\\])/.test(next);
  return isPath && !next.startsWith("/login") ? next : "/";
}
