// Joins the parts: snapshots come in as server-sent events, every part shows the same one.

import { duration, element, ownerIndex, rate, setText, stateWords, workerName } from "/format.js";
import { CanvasRiver } from "/canvas.js";
import { riverOf } from "/layout.js";
import { showDetails, showEvents, showFacts, showLegend, showTrouble, showVerdict, showWorkers } from "/panels.js";
import { SvgRiver } from "/river.js";
import { ShardTable } from "/table.js";

const SVG_MOST = 700;
const at = (id) => document.getElementById(id);
const state = { snapshot: null, selectedId: null, actions: [], painter: null, painterKind: null };

const table = new ShardTable({ choose, searched: () => drawRiver() });

function choose(id) {
  state.selectedId = id === state.selectedId ? null : id;
  show();
}

function show() {
  const { snapshot, selectedId, actions } = state;
  if (!snapshot) return;
  document.title = `${snapshot.stream} · shardline`;
  setText(at("stream"), snapshot.stream);
  at("app").hidden = snapshot.app === null;
  setText(at("app"), snapshot.app ?? "");
  at("notice").hidden = !snapshot.notice;
  setText(at("notice"), snapshot.notice ? `${snapshot.notice}. What you see is what was last seen.` : "");
  // Workers come sorted by name, shards do not: colours are the same for everybody who looks.
  for (const worker of snapshot.workers) ownerIndex(worker.name);
  showFacts(snapshot);
  showVerdict(snapshot.verdict);
  showLegend(snapshot, (words) => table.searchFor(words));
  drawRiver();
  table.show(snapshot, selectedId);
  showDetails(snapshot, selectedId, { choose, act, actions });
  showWorkers(snapshot.workers);
  showTrouble(snapshot);
  showEvents(snapshot.events);
  document.body.dataset.at = String(snapshot.at);
}

function drawRiver() {
  if (!state.snapshot) return;
  const holder = at("river");
  const river = riverOf(state.snapshot, {
    width: Math.max(320, holder.clientWidth),
    chosen: document.querySelector("input[name=window]:checked").value,
  });
  const kind = river.bands.length > SVG_MOST ? CanvasRiver : SvgRiver;
  if (state.painterKind !== kind) {
    state.painterKind = kind;
    state.painter = new kind(holder, { choose, point });
    setText(at("river-hint"), kind.hint);
  }
  state.painter.draw(river, state.selectedId, table.matcher());
}

function point(id, event) {
  const tip = at("tip");
  const shard = id && state.snapshot.shards.find((s) => s.id === id);
  tip.hidden = !shard;
  if (!shard) return;
  const lines = [stateWords(shard)];
  if (shard.owner) lines.push(`${workerName(shard.owner)}, epoch ${shard.epoch}`);
  if (shard.lag_seconds !== null) lines.push(`lag ${duration(shard.lag_seconds)}`);
  if (shard.records_per_second !== null) lines.push(`${rate(shard.records_per_second)} records/s`);
  tip.replaceChildren(element("strong", { class: "mono", text: shard.id }), ...lines.map((text) => element("span", { text })));
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const top = event.clientY + 18 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}

async function act(action, shardId, token) {
  try {
    const response = await fetch(`/actions/${action}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
      body: JSON.stringify({ shard_id: shardId }),
    });
    return (await response.json()).message;
  } catch {
    return "the dashboard does not answer";
  }
}

function linked(word, text) {
  at("link").dataset.state = word;
  setText(at("link-text"), text);
}

function listen() {
  const source = new EventSource("/events");
  source.addEventListener("open", () => linked("live", "live"));
  source.addEventListener("error", () => linked("lost", "not connected, trying again"));
  source.addEventListener("snapshot", (event) => {
    state.snapshot = JSON.parse(event.data);
    linked(state.snapshot.notice ? "stale" : "live", state.snapshot.notice ? "stale" : "live");
    show();
  });
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

at("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  const next = dark ? "light" : "dark";
  setTheme(next);
  try { localStorage.setItem("shardline-theme", next); } catch { /* private windows refuse */ }
  show();
});
at("window").addEventListener("change", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
    event.preventDefault();
    at("search").focus();
  } else if (event.key === "Escape" && state.selectedId) choose(null);
});
new ResizeObserver(() => drawRiver()).observe(at("river"));

try {
  const kept = localStorage.getItem("shardline-theme");
  if (kept === "light" || kept === "dark") setTheme(kept);
} catch { /* private windows refuse */ }
fetch("/about").then((r) => r.json()).then((about) => { state.actions = about.actions; show(); }).catch(() => {});
listen();
