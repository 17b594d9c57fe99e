// A traced request: when what was done, and what was read for it.

import { count, element, rowsOf, size } from "./kit.js";

/** The rows of a trace, which may still be on their way. */
async function stored(query) {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    if (attempt) await new Promise((resolve) => setTimeout(resolve, 30));
    const rows = await rowsOf(query);
    if (rows.length) return rows;
  }
  return [];
}

/** When what was done, as a waterfall. */
export async function showWaterfall(place, id) {
  const events = await stored(`SELECT activity, source_elapsed, thread FROM system_traces.events WHERE session_id = ${id}`);
  events.sort((left, right) => left.source_elapsed - right.source_elapsed);
  const end = Math.max(1, ...events.map((event) => event.source_elapsed));
  const steps = events.map((event, at) => {
    const from = at ? events[at - 1].source_elapsed : 0;
    const fill = element("div", { class: "fill" });
    fill.style.left = `${from / end * 100}%`;
    fill.style.width = `${(event.source_elapsed - from) / end * 100}%`;
    return element("div", { class: "step" }, element("span", { title: event.thread ?? "" }, event.activity),
      element("div", { class: "track" }, fill), element("span", { class: "amount" }, `${event.source_elapsed} \u00b5s`));
  });
  place.replaceChildren(element("h2", {}, "Trace"), ...steps);
  place.hidden = !steps.length;
}

// Pages and rows of memory: how many were found there, and how many were looked for.
const FOUND = [["Index pages", "index_page"], ["Data pages", "data_page"], ["Row cache", "row_cache"]];

/** What was read for an answer of so many rows. */
export async function showReads(place, id, answered) {
  const [session] = await stored(`SELECT parameters FROM system_traces.sessions WHERE session_id = ${id}`);
  const parameters = session?.parameters ?? {};
  const number = (name) => Number(parameters[name] ?? 0);
  const facts = [
    ["Rows read", count(number("rows_read")), `for ${count(answered)} in the answer`],
    ["Tombstones passed", count(number("tombstones_read")), ""],
    ["SSTables opened", count(number("sstables_opened")), "once for each step of a scan"],
    ["Disk reads", count(number("disk_reads")), size(number("disk_read_bytes"))],
    ["Index", parameters.indexes ?? "none", number("index_reads") ? "led to the rows" : ""],
    ...FOUND.map(([name, counts]) => {
      const [hits, misses] = [number(`${counts}_hits`), number(`${counts}_misses`)];
      return [name, hits + misses ? `${count(hits)} of ${count(hits + misses)}` : "not looked at", hits + misses ? "found in memory" : ""];
    }),
  ];
  const list = element("dl", { class: "facts" }, ...facts.map(([name, value, about]) => element("div", {},
    element("dt", {}, name), element("dd", {}, value, element("span", { class: "quiet" }, about)))));
  place.replaceChildren(element("h2", {}, "What was read"), list);
  place.hidden = !session;
}
