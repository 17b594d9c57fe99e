// What all views are made with: asking the door, and making elements that show text as text.

export const byId = (id) => document.getElementById(id);

export class Problem extends Error {
  constructor(status, problem) {
    super(problem.detail ?? "The node does not answer");
    this.status = status;
    this.title = problem.title ?? "";
  }
}

// Asking

let token = sessionStorage.getItem("token");

export function isLoggedIn() {
  return Boolean(token);
}

export function keepToken(issued) {
  token = issued;
  sessionStorage.setItem("token", issued);
}

async function send(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers["X-Cassandra-Token"] = token;
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Problem(response.status, await response.json().catch(() => ({})));
  return response;
}

export async function post(path, body) {
  return (await send(path, body)).json();
}

/** Has the node carry out an operation; `onReply` is told how far it is. */
export async function operate(request, onReply) {
  const response = await send("v1/operations", request);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let [text, last] = ["", null];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (text + value).split("\n");
    text = lines.pop();
    for (const line of lines) {
      last = JSON.parse(line);
      if (last.reply === "begin" || last.reply === "progress") onReply(last);
    }
  }
  if (last?.reply === "done") return last.answer;
  throw new Problem(0, { detail: last?.message ?? "The answer ended before the operation did, which goes on" });
}

export async function rowsOf(query, options = {}) {
  return (await post("v1/query", { query, read_only: true, page_size: 5000, consistency: "ONE", ...options })).rows ?? [];
}

// Making elements

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key in made && key !== "role") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function drawing(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function table(columns, rows, onPick) {
  const head = element("tr", {}, ...columns.map((column) => element("th", { scope: "col", class: column.isNumber ? "number" : "" },
    column.name, ...(column.type ? [element("span", { class: "type" }, column.type)] : []))));
  const lines = rows.map((row) => {
    const cells = row.map((value, at) => {
      if (value instanceof Element) return element("td", {}, value);
      if (value === null || value === undefined) return element("td", { class: "null" }, "null");
      const text = typeof value === "object" ? JSON.stringify(value) : String(value);
      return element("td", { class: columns[at].isNumber ? "number" : "", title: text.length > 60 ? text : "" }, text);
    });
    const line = element("tr", {}, ...cells);
    if (onPick) {
      line.className = "pick";
      line.tabIndex = 0;
      line.addEventListener("click", (event) => { if (!event.target.closest("button")) onPick(row); });
      line.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target === line) { event.preventDefault(); onPick(row); } });
    }
    return line;
  });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines));
}

export function bar(name, part, amount) {
  const fill = element("div", { class: "fill" });
  fill.style.width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return element("div", { class: "bar" }, element("span", {}, name), element("div", { class: "track" }, fill), element("span", { class: "amount" }, amount));
}

export function count(number) {
  if (number >= 1e6) return `${(number / 1e6).toFixed(2)} M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  return number >= 100 || Number.isInteger(number) ? Math.round(number).toLocaleString("en") : number.toFixed(1);
}

export function duration(milliseconds) {
  return milliseconds < 10 ? milliseconds.toFixed(2) : count(milliseconds);
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
  return `${bytes >= 100 || at === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[at]}`;
}
