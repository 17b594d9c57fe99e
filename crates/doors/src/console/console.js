// The console. It asks the door that it came from, once a second while somebody looks, and shows text as text.

import { Schema } from "./cql.js";
import { bar, byId, count, drawing, duration, element, isLoggedIn, keepToken, post, rowsOf, size, table } from "./kit.js";
import { askForOperation, listenForOperations } from "./operations.js";
import { showReads, showWaterfall } from "./trace.js";

const PERIOD_MS = 1000;
const SAMPLES_MAX = 90;
const REMEMBERED_MAX = 50;
const SLOW_QUERIES_MAX = 50;

// Now

const TILES = [
  { name: "Reads", unit: "/s", of: (now) => now.rate("helenus_cql_requests_total", 'kind="read"') },
  { name: "Reads take", unit: "ms p99", format: duration, of: (now) => now.latencyMs(0.99, "read"), note: (now) => median(now, "read") },
  { name: "Writes", unit: "/s", of: (now) => now.rate("helenus_cql_requests_total", 'kind="write"') + now.rate("helenus_cql_requests_total", 'kind="batch"') },
  { name: "Writes take", unit: "ms p99", format: duration, of: (now) => now.latencyMs(0.99, "write", "batch"), note: (now) => median(now, "write", "batch") },
  { name: "Refused", unit: "/s", isAlarm: true, of: (now) => now.rate("helenus_cql_requests_refused_total") + now.rate("helenus_cql_requests_shed_total") },
  { name: "Errors", unit: "/s", of: (now) => now.rate("helenus_cql_errors_total") },
  { name: "Waiting for a shard", unit: "\u00b5s", of: (now) => now.most("helenus_queue_delay_seconds") * 1e6 },
  { name: "CQL connections", unit: "", of: (now) => now.sum("helenus_connections") },
];

const MEMORY = [
  ["Memtables", "helenus_memtable_bytes"], ["Row cache", "helenus_row_cache_bytes"], ["Page cache", "helenus_page_cache_bytes"],
  ["SSTable indexes", "helenus_sstable_memory_bytes"], ["Requests", "helenus_request_bytes"],
];

function median(now, ...kinds) {
  const medianMs = now.latencyMs(0.5, ...kinds);
  return Number.isNaN(medianMs) ? "" : `p50 ${duration(medianMs)}`;
}

class Sample {
  constructor(rows, before) {
    this.atMs = performance.now();
    this.rows = rows;
    this.before = before;
  }

  matching(name, label) {
    return this.rows.filter((row) => row.name === name && (!label || row.labels.includes(label)));
  }

  sum(name, label) { return this.matching(name, label).reduce((sum, row) => sum + row.value, 0); }

  most(name) { return this.matching(name).reduce((most, row) => Math.max(most, row.value), 0); }

  rate(name, label) {
    if (!this.before) return 0;
    const passedMs = this.atMs - this.before.atMs;
    return Math.max(0, (this.sum(name, label) - this.before.sum(name, label)) / passedMs * 1000);
  }

  /** Within how many milliseconds such a part of the last period's statements of these kinds were answered; NaN where there were none. */
  latencyMs(part, ...kinds) {
    const buckets = new Map();
    const add = (rows, sign) => {
      for (const kind of kinds) {
        for (const { labels, value } of rows.matching("helenus_cql_request_duration_seconds_bucket", `kind="${kind}"`)) {
          const boundMs = Number(/le="([^"]+)"/.exec(labels)[1].replace("+Inf", "Infinity")) * 1000;
          buckets.set(boundMs, (buckets.get(boundMs) ?? 0) + sign * value);
        }
      }
    };
    if (!this.before) return NaN;
    add(this, 1);
    add(this.before, -1);
    return quantile([...buckets].sort(([left], [right]) => left - right), part);
  }
}

/** Of cumulative counts by their bounds, from the least: where such a part of all lies, evenly spread within its bucket. */
function quantile(buckets, part) {
  const wanted = part * (buckets.at(-1)?.[1] ?? 0);
  if (wanted <= 0) return NaN;
  const at = buckets.findIndex(([, below]) => below >= wanted);
  const [from, before] = buckets[at - 1] ?? [0, 0];
  const [to, below] = buckets[at];
  return to === Infinity ? from : from + (to - from) * (wanted - before) / (below - before);
}

function makeTiles() {
  for (const tile of TILES) {
    tile.samples = [];
    tile.value = element("span", {}, "0");
    tile.aside = element("span", { class: "aside" });
    tile.area = drawing("path", { class: "area" });
    tile.line = drawing("path", { class: "line" });
    const chart = drawing("svg", { viewBox: `0 0 ${SAMPLES_MAX} 44`, preserveAspectRatio: "none", "aria-hidden": "true" });
    chart.append(tile.area, tile.line);
    tile.card = element("article", { class: "tile" }, element("div", { class: "name" }, tile.name),
      element("div", { class: "value" }, tile.value, element("span", { class: "unit" }, tile.unit), tile.aside), chart);
    byId("tiles").append(tile.card);
  }
}

function showTile(tile, now) {
  const value = tile.of(now);
  tile.samples.push(value || 0);
  if (tile.samples.length > SAMPLES_MAX) tile.samples.shift();
  tile.value.textContent = Number.isNaN(value) ? "\u2013" : (tile.format ?? count)(value);
  tile.aside.textContent = tile.note?.(now) ?? "";
  tile.card.classList.toggle("alarm", Boolean(tile.isAlarm) && value > 0);
  const most = Math.max(...tile.samples, 1e-9);
  const first = SAMPLES_MAX - tile.samples.length;
  const points = tile.samples.map((sample, at) => `${first + at + 0.5},${(42 - sample / most * 38).toFixed(1)}`);
  tile.line.setAttribute("d", `M${points.join("L")}`);
  tile.area.setAttribute("d", `M${first + 0.5},44L${points.join("L")}L${SAMPLES_MAX - 0.5},44Z`);
}

let last = null;

async function sample() {
  const rows = await rowsOf("SELECT name, labels, value FROM system_views.node_metrics");
  if (last) last.before = null;
  last = new Sample(rows, last);
  for (const tile of TILES) showTile(tile, last);
  const amounts = MEMORY.map(([name, metric]) => [name, last.sum(metric)]);
  const most = Math.max(...amounts.map(([, bytes]) => bytes), 1);
  byId("memory").replaceChildren(...amounts.map(([name, bytes]) => bar(name, bytes / most, size(bytes))));
  await showTasks();
}

async function showTasks() {
  const tasks = await rowsOf("SELECT keyspace_name, table_name, kind, completion_ratio, progress, total FROM system_views.sstable_tasks");
  const bars = tasks.map((task) => bar(`${task.kind} ${task.keyspace_name}.${task.table_name}`, task.completion_ratio, `${Math.round(task.completion_ratio * 100)} %`));
  const pending = last.sum("helenus_compaction_pending_tasks");
  const done = last.sum("helenus_compaction_completed_total");
  const summary = element("p", { class: "quiet" }, `${count(tasks.length)} under way, ${count(pending)} wanted, ${count(done)} done since the start`);
  byId("tasks").replaceChildren(...bars, summary);
}

let slowAfter = null;

/** SELECTs that took longer than others, the slowest first; one that is picked is put into the editor. */
async function showSlowQueries() {
  const slow = await rowsOf("SELECT keyspace_name, table_name, timestamp, query, min_ms, avg_ms, max_ms, times_reported FROM system_views.slow_queries");
  slowAfter ??= (await rowsOf("SELECT value FROM system_views.settings WHERE name = 'slow_query_log_timeout'"))[0]?.value ?? "";
  byId("slow-after").textContent = slowAfter === "0ms" ? "not looked for" : `SELECTs over ${slowAfter}`;
  slow.sort((left, right) => right.max_ms - left.max_ms);
  const numbers = ["most ms", "mean ms", "least ms", "times"].map((name) => ({ name, isNumber: true }));
  const columns = [...numbers, { name: "table" }, { name: "last" }, { name: "query" }];
  const rows = slow.slice(0, SLOW_QUERIES_MAX).map((row) => [count(row.max_ms), count(row.avg_ms), count(row.min_ms), count(row.times_reported),
    `${row.keyspace_name}.${row.table_name}`, row.timestamp.slice(0, 19), row.query]);
  const edit = (row) => {
    byId("cql").value = row.at(-1);
    show("query");
  };
  byId("slow").replaceChildren(rows.length ? table(columns, rows, edit) : element("p", { class: "quiet" }, "No SELECT took that long"));
}

async function showSlowly() {
  await Promise.all([showSlowQueries(), showHottest(), showClients()]);
}

async function showHottest() {
  const hot = await rowsOf("SELECT keyspace_name, table_name, partition_key, reads_per_second, writes_per_second, share FROM system_views.hot_partitions");
  hot.sort((left, right) => right.share - left.share);
  const columns = [{ name: "table" }, { name: "partition" }, { name: "reads/s", isNumber: true }, { name: "writes/s", isNumber: true }, { name: "share", isNumber: true }];
  byId("hot").replaceChildren(hot.length ? table(columns, hot.slice(0, 12).map((row) => [`${row.keyspace_name}.${row.table_name}`, row.partition_key,
    count(row.reads_per_second), count(row.writes_per_second), `${Math.round(row.share * 100)} %`])) : element("p", { class: "quiet" }, "No partition is asked for more than others"));
}

async function showClients() {
  const clients = await rowsOf("SELECT address, port, username, driver_name, driver_version, keyspace_name, request_count FROM system_views.clients");
  clients.sort((left, right) => right.request_count - left.request_count);
  const of = [{ name: "address" }, { name: "user" }, { name: "driver" }, { name: "keyspace" }, { name: "requests", isNumber: true }];
  byId("clients").replaceChildren(table(of, clients.slice(0, 50).map((row) => [`${row.address}:${row.port}`, row.username,
    [row.driver_name, row.driver_version].filter(Boolean).join(" "), row.keyspace_name, count(row.request_count)])));
}

// Tables

let schema = new Schema([]);

async function readSchema() {
  schema = new Schema(await rowsOf("SELECT keyspace_name, table_name, column_name, type FROM system_schema.columns"));
  const chosen = byId("keyspace").value;
  byId("keyspace").replaceChildren(element("option", { value: "" }, "none"), ...schema.keyspaces.map((name) => element("option", {}, name)));
  byId("keyspace").value = chosen;
}

async function showTables() {
  const [usage] = await Promise.all([rowsOf("SELECT keyspace_name, table_name, mebibytes FROM system_views.disk_usage"), readSchema()]);
  const mebibytes = new Map(usage.map((row) => [`${row.keyspace_name}.${row.table_name}`, row.mebibytes]));
  const wanted = byId("filter").value.toLowerCase();
  const isOurs = (name) => /^system/.test(name);
  const names = [...schema.tables.keys()].filter((name) => name.includes(wanted));
  names.sort((left, right) => isOurs(left) - isOurs(right) || left.localeCompare(right));
  const columns = [{ name: "table" }, { name: "columns", isNumber: true }, { name: "MiB on disk", isNumber: true }, { name: "operations" }];
  const rows = names.map((name) => [name, schema.tables.get(name).length, mebibytes.get(name) ?? 0, mebibytes.has(name) ? operationsOf(name) : ""]);
  byId("table-list").replaceChildren(table(columns, rows, ([name]) => {
    byId("cql").value = `SELECT * FROM ${name} LIMIT 100`;
    show("query");
    run();
  }));
}

function operationsOf(name) {
  const button = element("button", { type: "button", class: "small", "aria-label": `Operate on ${name}`, disabled: byId("read-only").checked }, "Operate");
  button.addEventListener("click", () => askForOperation(...name.split(".")).catch(failed));
  return button;
}

// Query

let shown = null;
const remembered = JSON.parse(localStorage.getItem("statements") ?? "[]");
let recalled = remembered.length;

function remember(text) {
  if (remembered.at(-1) !== text) remembered.push(text);
  while (remembered.length > REMEMBERED_MAX) remembered.shift();
  recalled = remembered.length;
  localStorage.setItem("statements", JSON.stringify(remembered));
}

async function run() {
  const text = byId("cql").value.trim().replace(/;\s*$/, "");
  if (!text) return;
  remember(text);
  hideChoices();
  const [isTraced, isExplained] = [byId("trace").checked, byId("explain").checked];
  shown = {
    isTraced,
    isExplained,
    request: {
      query: text, rows: "arrays", read_only: byId("read-only").checked, tracing: isTraced || isExplained,
      page_size: Number(byId("page-size").value), consistency: byId("consistency").value,
      ...(byId("keyspace").value && { keyspace: byId("keyspace").value }),
    },
    rows: [],
  };
  byId("result").hidden = true;
  byId("waterfall").hidden = true;
  byId("reads").hidden = true;
  await nextPage();
  if (/^\s*(create|alter|drop)/i.test(text)) readSchema().catch(() => {});
}

async function nextPage() {
  const mine = shown;
  const begun = performance.now();
  byId("run").disabled = true;
  byId("outcome").textContent = "\u2026";
  try {
    const answer = await post("v1/query", { ...mine.request, ...(mine.state && { page_state: mine.state }) });
    const tookMs = performance.now() - begun;
    mine.state = answer.page_state;
    mine.rows.push(...(answer.rows ?? []));
    showAnswer(mine, answer, tookMs);
    if (answer.tracing_id) await showTraced(mine, answer);
  } catch (problem) {
    byId("more").hidden = true;
    byId("outcome").replaceChildren(element("span", { class: "error" }, `${problem.title ? `${problem.title}: ` : ""}${problem.message}`));
    if (problem.status === 401) askForLogin();
  } finally {
    byId("run").disabled = false;
  }
}

async function showTraced({ isTraced, isExplained }, answer) {
  if (isTraced) await showWaterfall(byId("waterfall"), answer.tracing_id);
  if (isExplained) await showReads(byId("reads"), answer.tracing_id, answer.rows?.length ?? 0);
}

function showAnswer(mine, answer, tookMs) {
  const warnings = (answer.warnings ?? []).map((text) => element("div", { class: "warning" }, text));
  byId("more").hidden = !mine.state;
  if (answer.columns) {
    const numbers = /^(tinyint|smallint|int|bigint|counter|float|double|decimal|varint)$/;
    const columns = answer.columns.map(({ name, type }) => ({ name, type, isNumber: numbers.test(type) }));
    byId("result").replaceChildren(table(columns, mine.rows));
    byId("result").hidden = false;
    byId("outcome").replaceChildren(`${count(mine.rows.length)} rows${mine.state ? ", and there are more" : ""}, ${tookMs.toFixed(1)} ms`, ...warnings);
  } else {
    const change = answer.schema_change;
    byId("outcome").replaceChildren(change ? `${change.change} ${change.target} ${change.keyspace}${change.name ? `.${change.name}` : ""}, ${tookMs.toFixed(1)} ms` : `Done, ${tookMs.toFixed(1)} ms`, ...warnings);
  }
}

// Completion

let choice = -1;

function hideChoices() {
  byId("choices").hidden = true;
  choice = -1;
}

function completions() {
  const field = byId("cql");
  return schema.complete(field.value.slice(0, field.selectionStart), field.value, byId("keyspace").value);
}

function showChoices() {
  const { choices, typed } = completions();
  if (!choices.length || !typed) return hideChoices();
  choice = 0;
  byId("choices").replaceChildren(...choices.map((offered, at) => {
    const line = element("li", { role: "option" }, offered.text, element("span", { class: "quiet" }, offered.about));
    line.setAttribute("aria-selected", String(at === 0));
    line.addEventListener("mousedown", (event) => { event.preventDefault(); choice = at; take(); });
    return line;
  }));
  byId("choices").hidden = false;
}

function move(by) {
  const lines = [...byId("choices").children];
  choice = (choice + by + lines.length) % lines.length;
  lines.forEach((line, at) => line.setAttribute("aria-selected", String(at === choice)));
  lines[choice].scrollIntoView({ block: "nearest" });
}

function take() {
  const field = byId("cql");
  const { choices, typed } = completions();
  const chosen = choices[choice];
  if (chosen) field.setRangeText(chosen.text, field.selectionStart - typed, field.selectionStart, "end");
  hideChoices();
  field.focus();
}

function onEditorKey(event) {
  const isOffered = !byId("choices").hidden;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
  else if (isOffered && event.key === "ArrowDown") { event.preventDefault(); move(1); }
  else if (isOffered && event.key === "ArrowUp") { event.preventDefault(); move(-1); }
  else if (isOffered && (event.key === "Tab" || event.key === "Enter")) { event.preventDefault(); take(); }
  else if (event.key === "Escape") { isOffered ? hideChoices() : byId("main").focus(); event.stopPropagation(); }
  else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    event.preventDefault();
    recalled = Math.max(0, Math.min(remembered.length - 1, recalled + (event.key === "ArrowUp" ? -1 : 1)));
    byId("cql").value = remembered[recalled] ?? byId("cql").value;
  }
}

// Views, looks, login

function show(view) {
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== view;
  for (const tab of document.querySelectorAll("nav button")) {
    if (tab.dataset.view === view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  history.replaceState(null, "", `#${view}`);
  if (view === "tables") showTables().catch(failed);
  if (view === "query") byId("cql").focus();
}

function askForLogin() {
  if (!byId("login").open) byId("login").showModal();
}

async function logIn(event) {
  event.preventDefault();
  try {
    const answer = await post("v1/auth", { username: byId("user").value, password: byId("password").value });
    keepToken(answer.authToken);
    byId("password").value = "";
    byId("login-error").textContent = "";
    byId("login").close();
    refresh();
    readSchema().catch(failed);
  } catch (problem) {
    byId("login-error").textContent = problem.message;
  }
}

function failed(problem) {
  byId("link").textContent = problem.status ? "refused" : "not reached";
  byId("link").className = "link down";
  if (problem.status === 401) askForLogin();
}

let rounds = 0;

async function refresh() {
  try {
    await Promise.all([sample(), rounds % 5 === 0 ? showSlowly() : null]);
    rounds += 1;
    byId("link").textContent = "live";
    byId("link").className = "link up";
    document.documentElement.dataset.ready = "yes";
  } catch (problem) {
    failed(problem);
  }
}

async function live() {
  for (;;) {
    if (!document.hidden && !byId("login").open) await refresh();
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

function listen() {
  for (const tab of document.querySelectorAll("nav button")) tab.addEventListener("click", () => show(tab.dataset.view));
  byId("run").addEventListener("click", run);
  byId("more").addEventListener("click", nextPage);
  byId("filter").addEventListener("input", () => showTables().catch(failed));
  byId("cql").addEventListener("keydown", onEditorKey);
  byId("cql").addEventListener("input", showChoices);
  byId("cql").addEventListener("blur", hideChoices);
  byId("login-form").addEventListener("submit", logIn);
  byId("read-only").addEventListener("change", () => { if (!byId("tables").hidden) showTables().catch(failed); });
  listenForOperations(() => showTables().catch(failed));
  byId("login").addEventListener("cancel", (event) => event.preventDefault());
  byId("theme").addEventListener("click", () => {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (isDark ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  });
  document.addEventListener("keydown", (event) => {
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const view = { 1: "now", 2: "tables", 3: "query", "/": "query" }[event.key];
    if (view) { event.preventDefault(); show(view); }
  });
}

async function begin() {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  for (const name of ["LOCAL_QUORUM", "ONE", "LOCAL_ONE", "QUORUM", "ALL", "SERIAL", "LOCAL_SERIAL"]) byId("consistency").append(element("option", {}, name));
  makeTiles();
  listen();
  const asked = location.hash.slice(1);
  show(["now", "tables", "query"].includes(asked) ? asked : "now");
  const information = await (await fetch("v1/information")).json();
  byId("version").textContent = information.version;
  if (information.read_only) {
    byId("read-only").checked = true;
    byId("read-only").disabled = true;
    byId("read-only").dispatchEvent(new Event("change"));
  }
  if (information.authentication && !isLoggedIn()) askForLogin();
  else readSchema().catch(failed);
  live();
}

begin().catch(failed);
