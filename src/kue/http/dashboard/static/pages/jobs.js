// Jobs page: search and filter jobs, act on one or many.

import { emptyState } from "../components/empty-state.js";
import { progressBar } from "../components/progress-bar.js";
import { table } from "../components/table.js";
import { fill, h } from "../lib/dom.js";
import { number, plural } from "../lib/format.js";
import { canDo, cancel, retry } from "../lib/job-actions.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { go, href, query, setQuery } from "../lib/router.js";
import { addJob } from "./jobs/add.js";
import { COLUMNS, chosenColumns } from "./jobs/columns.js";
import { readCounts, readPage } from "./jobs/fetch.js";
import { filterBar, knownValues } from "./jobs/filter-bar.js";
import { asBody, asParams, filtersOf } from "./jobs/filters.js";
import {
  columnsMenu,
  exportMenu,
  saveCsv,
  saveJson,
  saveThisView,
  viewQuery,
  viewsMenu,
} from "./jobs/view-menus.js";
import { bulkBar, defaultOrder, orderPicker, stateTabs } from "./jobs/toolbar.js";

//: A slow search is repeated after this many times its duration.
const SLOWDOWN = 10;

const FIRST_JOB = `from kue import Kue

q = Kue()

@q.task
async def email(to: str) -> None:
    ...

await email.enqueue(to="ann@example.com")`;

export const page = {
  path: "/jobs",
  title: "Jobs",
  nav: { label: "Jobs", icon: "jobs", order: 30, key: "j" },

  mount(root, ctx) {
    const view = new JobsView(ctx);
    root.append(view.node);
    view.start();
    return () => view.leave();
  },
};

class JobsView {
  constructor(ctx) {
    this._ctx = ctx;
    this._counts = null;
    this._cursor = null;
    this._isPartial = false;
    //: Whether a search is running, and whether the user stopped it.
    this._isSearching = false;
    this._isStopped = false;
    //: How many jobs a search looked at, of how many; null of a plain list.
    this._lookedAt = 0;
    this._total = null;
    //: How many it looked at before the page of a cursor, if it came from there.
    this._lookedBefore = new Map();
    this._tookMs = 0;
    this._columns = "";
    //: The query whose complete list is shown.
    this._shown = null;
    //: Cursors of the previous pages; the first page has none.
    this._previousCursors = [];
    this._isStale = false;
    this._hasLeft = false;
    this._stops = [];
    this._tabs = stateTabs(
      (state) => href(`/jobs?${this._search({ state, order: null })}`),
      (state) => this._change({ state, order: null }),
    );
    this._bar = filterBar({
      suggest: (name) => knownValues(name, this._table.rows),
      onChange: (changes) => this._change(changes),
    });
    this._table = table({
      columns: COLUMNS,
      key: (job) => job.id,
      caption: "Jobs",
      link: (job) => `/jobs/${job.id}`,
      selectable: can("manage"),
      onSelect: () => this._selected(),
    });
    this._bulk = bulkBar({
      matching: () => this._matching(),
      clear: () => this._table.clear(),
      onDone: () => this._restart(),
    });
    this._order = orderPicker((order) => this._change({ order }));
    this._fault = h("p", { class: "fault", role: "alert" });
    this._hint = h("p", { class: "list-hint", role: "status", hidden: true });
    this._emptyState = h("div", { hidden: true });
    this._searchStatus = h("span", { role: "status" });
    this._lookedStatus = h("span");
    this._searchBar = h("div", { class: "search-bar" });
    this._progress = h(
      "div",
      { class: "searching", hidden: true },
      this._searchStatus,
      this._searchBar,
      this._lookedStatus,
      h("button", { class: "small", onclick: () => this._stopSearch() }, "Stop"),
    );
    this._pager = h("nav", { class: "pager", "aria-label": "Pages" });
    this.node = h(
      "div",
      { class: "jobs-page" },
      h("header", { class: "page-head" }, h("h1", null, "Jobs"), this._tools()),
      this._tabs.node,
      h("div", { class: "filter-row" }, this._bar.node, this._order.node),
      this._fault,
      this._bulk.node,
      this._hint,
      this._table.node,
      this._emptyState,
      this._progress,
      this._pager,
    );
  }

  start() {
    this._ctx.keys(this._keys());
    this._ctx.actions(this._actions());
    this._restart();
  }

  stop() {
    for (const stop of this._stops.splice(0)) stop();
  }

  //: Stop reading, even when a bulk action ends later.
  leave() {
    this._hasLeft = true;
    this.stop();
  }

  // -- filters -----------------------------------------------------------------

  get _filters() {
    return filtersOf(query());
  }

  get _orderOrDefault() {
    return query().order ?? defaultOrder(this._state);
  }

  get _state() {
    return query().state ?? "";
  }

  //: All matching jobs, for a bulk action: the server requires one state.
  _matching() {
    if (!this._state) return null;
    try {
      return { filter: asBody(this._filters, this._state), count: this._knownCount() };
    } catch {
      return null;
    }
  }

  //: How many match, if known: only types and states are counted.
  _knownCount() {
    if (!this._isCounted || !this._counts) return undefined;
    if (this._state) return this._counts[this._state] ?? 0;
    return Object.values(this._counts).reduce((sum, one) => sum + one, 0);
  }

  get _isCounted() {
    return this._filters.every(([name]) => name === "type");
  }

  _search(changes) {
    const search = new URLSearchParams(viewQuery(query()));
    for (const [name, value] of Object.entries(changes)) {
      search.delete(name);
      if (value) search.set(name, value);
    }
    return search.toString();
  }

  //: Write other filters into the address, and show the matching jobs.
  _change(changes) {
    setQuery({ cursor: null, ...changes }, { replace: false });
    if (!("cursor" in changes)) {
      this._previousCursors = [];
      this._lookedBefore.clear();
    }
    this._table.clear();
    this._restart();
  }

  // -- reading -----------------------------------------------------------------

  _restart() {
    if (this._hasLeft) return;
    this.stop();
    this._isStopped = false;
    this._tookMs = 0;
    const type = query().type;
    const types = type ? [type] : undefined;
    this._bar.show(this._filters);
    this._order.show(this._state, this._orderOrDefault);
    this._showColumns();
    this._showTabs();
    this._stops.push(
      refresher((signal) => this._read(signal), { types, minMs: () => this._minMs }),
      refresher((signal) => this._count(type, signal), { minMs: 2_000, types }),
    );
  }

  async _count(type, signal) {
    this._counts = await readCounts(type, signal);
    this._showTabs();
    this._drawPager();
  }

  _showTabs() {
    this._tabs.show(this._state, this._counts, !this._isCounted);
  }

  get _minMs() {
    return Math.max(1_000, SLOWDOWN * this._tookMs);
  }

  async _read(signal) {
    if (this._isStopped) return;
    // Rows must not move while the user selects.
    if (this._table.selected.size) {
      this._isStale = true;
      this._drawHint();
      return;
    }
    const began = Date.now();
    let found;
    try {
      const { state, cursor } = query();
      const order = this._orderOrDefault;
      const params = { ...asParams(this._filters), state, cursor, order };
      found = await readPage(params, signal, (part) => this._showPart(part));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this._showError(problem);
      return;
    }
    this._tookMs = Date.now() - began;
    this._showFound(found, false);
  }

  //: Show what a search found so far, unless the complete list was shown before.
  _showPart(found) {
    if (this._shown !== window.location.search) this._showFound(found, true);
    return !this._isStopped;
  }

  _showFound({ jobs, cursor, isPart, lookedAt, total }, isSearching) {
    this._fault.textContent = "";
    this._isStale = false;
    this._cursor = cursor;
    this._lookedAt = (this._lookedBefore.get(query().cursor) ?? 0) + lookedAt;
    this._total = total;
    this._isPartial = isPart;
    this._isSearching = isSearching;
    if (!isSearching) this._shown = window.location.search;
    if (!this._table.selected.size) this._show(jobs);
  }

  _stopSearch() {
    this._isStopped = true;
    this._isSearching = false;
    this._show(this._table.rows);
  }

  _showError(problem) {
    this._fault.textContent = problem.message;
    // The last data of an unreachable server stays on the page.
    if (problem.status === 0 || problem.status >= 500) return;
    this._cursor = null;
    this._isPartial = false;
    this._isSearching = false;
    this._table.update([]);
    this._table.node.hidden = true;
    this._emptyState.hidden = true;
    this._drawPager();
  }

  // -- list --------------------------------------------------------------------

  _show(jobs) {
    this._table.update(jobs);
    this._table.node.hidden = jobs.length === 0;
    this._showEmpty(jobs.length === 0 && !this._isSearching);
    this._drawHint();
    this._drawPager();
  }

  _showEmpty(isEmpty) {
    const isShown = !this._emptyState.hidden;
    this._emptyState.hidden = !isEmpty;
    if (!isEmpty) fill(this._emptyState);
    else if (!isShown || this._emptyState.dataset.search !== window.location.search) {
      this._emptyState.dataset.search = window.location.search;
      fill(this._emptyState, this._emptyView());
    }
  }

  _emptyView() {
    if (this._isPartial) {
      const far = this._lookedText && ` (${this._lookedText})`;
      const text = `No match so far, and there are more jobs to search${far}.`;
      return emptyState({ title: "Search stopped", text });
    }
    if (this._filters.length || this._state || query().cursor) {
      const action = { label: "Show all jobs", run: () => go("/jobs") };
      const isOnlyState = this._state && !this._filters.length;
      const text = isOnlyState
        ? `There are no ${this._state} jobs.`
        : "No job matches these filters.";
      return emptyState({ title: "No jobs found", text, action });
    }
    const text = "Jobs appear here as soon as they are added.";
    return emptyState({ title: "No jobs yet", text, code: FIRST_JOB });
  }

  _drawHint() {
    this._hint.hidden = !this._isStale;
    if (!this._isStale) return;
    fill(
      this._hint,
      "The list does not update while jobs are selected. ",
      h("button", { class: "link", onclick: () => this._table.clear() }, "Clear selection"),
    );
  }

  _drawPager() {
    const isFirst = !query().cursor;
    const back = this._previousCursors.length > 1 ? "Previous" : "First page";
    const count = this._knownCount();
    const shown = this._table.rows.length;
    const isCounted = count !== undefined && isFirst;
    const text = isCounted ? `${shown} of ${plural(count, "job")}` : plural(shown, "job");
    const isPaused = this._isPartial && !this._isSearching;
    const next = this._isPartial ? "Keep searching" : "Next";
    this._progress.hidden = !this._isSearching;
    this._searchStatus.textContent = this._isSearching ? `Searching… ${number(shown)} found` : "";
    this._drawProgress();
    fill(
      this._pager,
      h("span", { class: "faint" }, shown > 0 && text),
      h("span", { class: "faint" }, isPaused && shown > 0 && this._lookedText),
      !isFirst && h("button", { onclick: () => this._previous() }, back),
      this._cursor !== null &&
        !this._isSearching &&
        h("button", { onclick: () => this._next() }, next),
    );
  }

  //: "looked at 500 of 2,000 jobs"; empty for a plain list, which does not look at all.
  get _lookedText() {
    if (!this._total) return "";
    const done = Math.min(this._lookedAt, this._total);
    return `looked at ${number(done)} of ${plural(this._total, "job")}`;
  }

  //: How far a search is, as a bar and as numbers.
  _drawProgress() {
    this._lookedStatus.textContent = this._isSearching ? this._lookedText : "";
    if (!this._isSearching) return;
    const share = this._total ? (100 * this._lookedAt) / this._total : null;
    fill(this._searchBar, progressBar(share, { label: "Searching" }));
  }

  _next() {
    if (this._cursor === null) return;
    this._lookedBefore.set(this._cursor, this._lookedAt);
    this._previousCursors.push(query().cursor ?? null);
    this._change({ cursor: this._cursor });
    this._table.node.scrollIntoView({ block: "nearest" });
  }

  _previous() {
    this._change({ cursor: this._previousCursors.pop() ?? null });
  }

  _selected() {
    const ids = this._table.selected;
    this._bulk.show(this._table.rows.filter((job) => ids.has(job.id)));
    if (!ids.size && this._isStale) this._restart();
  }

  // -- tools -------------------------------------------------------------------

  _tools() {
    const add = h("button", { class: "primary", onclick: () => this._add() }, "Add job");
    return h(
      "div",
      { class: "actions" },
      viewsMenu(),
      columnsMenu(() => this._state, () => this._showColumns()),
      exportMenu(() => this._state, () => this._exported()),
      can("manage") && add,
    );
  }

  _add() {
    return addJob({ type: query().type });
  }

  _showColumns() {
    const keys = chosenColumns(this._state).map((column) => column.key);
    if (keys.join() === this._columns) return;
    this._columns = keys.join();
    this._table.show(keys);
  }

  //: The selected jobs, or all that are shown.
  _exported() {
    const { rows, selected } = this._table;
    return selected.size ? rows.filter((job) => selected.has(job.id)) : rows;
  }

  _keys() {
    return {
      ...this._table.keys,
      "/": { label: "Filter", run: () => this._bar.input.focus() },
      r: { label: "Retry selection or row", run: () => this._act("retry", retry) },
      c: { label: "Cancel selection or row", run: () => this._act("cancel", cancel) },
      a: { label: "Add a job", run: () => can("manage") && this._add() },
      o: { label: "Next page", run: () => this._next() },
      Escape: { label: "Clear selection", run: () => this._table.clear() },
    };
  }

  _act(act, one) {
    const job = this._table.current();
    if (this._table.selected.size) this._bulk.run(act);
    else if (job && canDo(act, job)) one(job);
  }

  _actions() {
    return [
      can("manage") && { label: "Add a job", run: () => this._add() },
      { label: "Export as JSON", run: () => saveJson(this._exported()) },
      { label: "Export as CSV", run: () => saveCsv(this._exported(), chosenColumns(this._state)) },
      { label: "Save this view", run: saveThisView },
    ].filter(Boolean);
  }
}
