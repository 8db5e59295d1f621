// Everything around the river and the table: facts, verdict, legend, workers, trouble, events, details.

import { clock, count, duration, element, letterKey, ownerIndex, percent, rate, setText, stateWords, workerName } from "/format.js";
import { childrenOf } from "/layout.js";
import { paintOwner } from "/table.js";

const at = (id) => document.getElementById(id);

export function showFacts(snapshot) {
  const shards = snapshot.shards;
  const open = shards.filter((s) => !s.closed).length;
  const waiting = shards.filter((s) => s.state === "waiting").length;
  const draining = shards.filter((s) => s.state === "readable" && s.closed).length;
  const rates = shards.map((s) => s.records_per_second).filter((r) => r !== null);
  const lags = shards.map((s) => s.lag_seconds).filter((l) => l !== null);
  const facts = [["Open shards", count(open), `${count(shards.length)} listed`]];
  if (snapshot.app !== null) {
    facts.push(["Waiting", count(waiting), draining ? `${count(draining)} draining` : "for their parents"]);
    facts.push(["Highest lag", lags.length ? duration(Math.max(...lags)) : "–", "of all shards"]);
  }
  if (rates.length) facts.push(["Records", rate(rates.reduce((a, b) => a + b, 0)), "per second"]);
  if (snapshot.app !== null) {
    const held = shards.filter((s) => s.owner).length;
    facts.push(["Workers", count(snapshot.workers.length), held === 1 ? "1 lease" : `${count(held)} leases`]);
    facts.push(["Gaps", count(snapshot.gaps.length), snapshot.gaps.length ? "records expired unread" : "recorded", snapshot.gaps.length > 0]);
  }
  if (snapshot.dead_letters.length) facts.push(["Dead letters", snapshot.dead_letters.length < 50 ? count(snapshot.dead_letters.length) : "50+", "set aside", true]);
  const list = at("facts");
  while (list.children.length < facts.length) {
    list.append(element("div", {}, element("dt"), element("dd", { class: "value" }), element("dd", { class: "more" })));
  }
  while (list.children.length > facts.length) list.lastChild.remove();
  facts.forEach(([name, value, more, bad], index) => {
    const [dt, dd, small] = list.children[index].children;
    setText(dt, name);
    setText(dd, value);
    setText(small, more);
    list.children[index].classList.toggle("bad", Boolean(bad));
  });
}

export function showVerdict(verdict) {
  const panel = at("verdict");
  panel.hidden = verdict === null;
  if (verdict === null) return;
  panel.classList.toggle("broken", !verdict.kept);
  const numbers = [["written", verdict.written], ["delivered", verdict.delivered], ["lost", verdict.lost],
    ["out of order", verdict.out_of_order], ["repeated", verdict.repeated], ["stale, refused", verdict.stale], ["in gaps", verdict.in_gaps]];
  panel.replaceChildren(
    element("h2", { text: verdict.kept ? "✓ Promise kept" : "✗ Promise broken" }),
    element("dl", {}, ...numbers.map(([name, value]) => element("div", {}, element("dt", { text: name }), element("dd", { text: count(value) })))),
    element("ul", {}, ...verdict.examples.slice(0, 5).map((text) => element("li", { text }))),
  );
}

// A click on a worker highlights its shards.
export function showLegend(snapshot, searchFor) {
  const names = new Map();
  for (const worker of snapshot.workers) names.set(workerName(worker.name), worker.name);
  for (const shard of snapshot.shards) {
    for (const { owner } of [...shard.reads, shard]) if (owner) names.set(workerName(owner), owner);
  }
  const owners = [...names.values()].sort((a, b) => ownerIndex(a) - ownerIndex(b));
  const list = at("legend");
  const wanted = owners.slice(0, 10);
  const written = JSON.stringify([wanted, owners.length]);
  if (list.dataset.written === written) return;
  list.dataset.written = written;
  list.replaceChildren(...wanted.map((owner) => {
    const button = element("button", { type: "button", text: workerName(owner) });
    button.addEventListener("click", () => searchFor(workerName(owner)));
    paintOwner(button, owner);
    return element("li", {}, button);
  }));
  if (owners.length > wanted.length) list.append(element("li", { class: "plain", text: `and ${owners.length - wanted.length} more` }));
}

export function showWorkers(workers) {
  at("workers-panel").hidden = workers.length === 0;
  at("worker-rows").replaceChildren(...workers.map((worker) => {
    const name = element("th", { scope: "row", class: "owner", text: workerName(worker.name) });
    paintOwner(name, worker.name);
    const note = worker.leaving ? "leaving" : worker.silent_seconds >= 10 ? `silent ${duration(worker.silent_seconds)}` : "";
    if (note) name.append(element("span", { class: "note", text: note }));
    return element("tr", { class: worker.silent_seconds >= 10 ? "silent" : "" }, name,
      element("td", { class: "number", text: count(worker.held) }),
      element("td", { class: "number", text: duration(worker.lag_seconds) }),
      element("td", { class: "number", text: rate(worker.records_per_second) }));
  }));
}

export function showTrouble(snapshot, payloads) {
  const letters = snapshot.dead_letters.map((letter) => ({ ...letter, payload: payloads.get(letterKey(letter)) ?? letter.payload }));
  const written = JSON.stringify([snapshot.gaps, letters, snapshot.shards.filter((s) => s.halted).map((s) => [s.id, s.halted])]);
  const list = at("trouble-list");
  const halted = snapshot.shards.filter((shard) => shard.halted);
  at("trouble").hidden = snapshot.gaps.length + snapshot.dead_letters.length + halted.length === 0;
  if (list.dataset.written === written) return;
  list.dataset.written = written;
  list.replaceChildren(
    ...halted.slice(0, 50).map((shard) => element("li", {},
      element("strong", { text: "halted" }), element("span", { class: "mono", text: shard.id }), element("span", { text: shard.halted }))),
    ...snapshot.gaps.slice(0, 50).map((gap) => element("li", {},
      element("strong", { text: "gap" }), element("span", { class: "mono", text: gap.shard_id }), element("span", { text: gap.text }))),
    ...letters.slice(-50).toReversed().map((letter) => element("li", {},
      element("strong", { text: "dead letter" }), element("span", { class: "mono", text: `${letter.shard_id} · key ${letter.partition_key} · ${letter.sequence_number}` }),
      element("span", { text: letter.reason }), element("code", { text: letter.payload }))),
  );
}

const SIGNS = { split: "≺", merged: "≻", continued: "→", closed: "■", taken: "+", "handed over": "⇄", released: "−", drained: "✓", joined: "●", left: "○", silent: "…", gap: "!", halted: "‖", note: "·" };
const seen = new Set();

// Only new lines are added, so that a screen reader announces each event once.
export function showEvents(events) {
  const list = at("events");
  at("no-events").hidden = events.length > 0;
  for (const event of events) {
    const key = `${event.at} ${event.kind} ${event.text}`;
    if (seen.has(key)) continue;
    seen.add(key);
    list.prepend(element("li", { class: `event-${event.kind.replace(/[^a-z]/g, "-")}` },
      element("time", { text: clock(event.at) }),
      element("span", { class: "sign", "aria-hidden": "true", text: SIGNS[event.kind] ?? "·" }),
      element("span", { class: "kind", text: event.kind }),
      element("span", { class: "what", text: event.text })));
  }
  while (list.children.length > 200) list.lastChild.remove();
}

export function showDetails(snapshot, selectedId, { choose, act, actions }) {
  const panel = at("details");
  const shard = snapshot.shards.find((s) => s.id === selectedId);
  panel.hidden = !shard;
  if (!shard) return;
  const facts = [["state", stateWords(shard)], ["owner", shard.owner ?? "–"], ...(shard.halted ? [["halted", shard.halted]] : []), ["epoch", shard.epoch ?? "–"], ["checkpoint", shard.checkpoint ?? "–"],
    ["lag", duration(shard.lag_seconds)], ["records/s", rate(shard.records_per_second)],
    ["hash range", shard.hash_start === null ? "not published" : `${percent(shard.hash_start)} to ${percent(shard.hash_end)}`],
    ["opened", shard.opened_at === null ? "not known" : new Date(shard.opened_at * 1000).toLocaleString("en-GB")],
    ["closed", shard.closed ? (shard.closed_at === null ? "before the dashboard was started" : new Date(shard.closed_at * 1000).toLocaleString("en-GB")) : "–"]];
  const written = JSON.stringify([selectedId, facts, actions, shard.parents]);
  const relatives = [["from", shard.parents], ["into", childrenOf(snapshot.shards).get(shard.id) ?? []]];
  if (panel.dataset.written === written) return;
  const typed = panel.querySelector("input")?.value ?? "";
  const inside = panel.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  panel.dataset.written = written;
  const close = element("button", { type: "button", class: "quiet", "aria-label": "Close the details", "data-name": "close", text: "✕" });
  close.addEventListener("click", () => choose(null));
  panel.replaceChildren(
    element("div", { class: "panel-head" }, element("h2", { id: "details-title", class: "mono", text: shard.id }), close),
    element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", { text: name }), element("dd", { text: String(value) })])),
    ...relatives.filter(([, ids]) => ids.length).map(([word, ids]) => element("p", { class: "relatives" }, element("span", { text: word }), ...ids.map((id) => {
      const known = snapshot.shards.some((s) => s.id === id);
      const button = element("button", { type: "button", class: "mono", text: id, disabled: !known, "data-name": id });
      button.addEventListener("click", () => choose(id));
      return button;
    }))),
  );
  if (actions.includes("release") && (shard.owner || shard.halted)) panel.append(releaseForm(shard, act, typed));
  if (inside) [...panel.querySelectorAll("[data-name]")].find((node) => node.dataset.name === inside)?.focus();
}

function releaseForm(shard, act, typed) {
  const token = element("input", { type: "password", autocomplete: "off", placeholder: "token", "aria-label": "Token", "data-name": "token" });
  token.value = typed;
  const button = element("button", { type: "button", text: "Release this lease", "data-name": "release" });
  const said = element("p", { role: "status" });
  button.addEventListener("click", async () => setText(said, await act("release", shard.id, token.value)));
  return element("div", { class: "act" }, token, button, said);
}
