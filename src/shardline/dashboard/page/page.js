// Joins the parts: snapshots arrive as server-sent events, and every part shows the same one.

import { duration, element, letterKey, ownerIndex, rate, setText, stateWords, workerName } from "/format.js";
import { CanvasRiver } from "/canvas.js";
import { riverOf } from "/layout.js";
import { showDetails, showEvents, showFacts, showLegend, showTrouble, showVerdict, showWorkers } from "/panels.js";
import { SvgRiver } from "/river.js";
import { ShardTable } from "/table.js";

const SVG_MOST = 700;
const at = (id) => document.getElementById(id);
const SILENT_PULSES = 3; // as many missed pulses make the picture stale
const state = {
  snapshot: null, selectedId: null, actions: [], painter: null, painterKind: null,
  hasToken: false, payloads: new Map(), pulseSeconds: 5, watchdog: null,
};

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
  setText(at("notice"), snapshot.notice ? `${snapshot.notice}. The page shows the last observation.` : "");
  // Workers are sorted by name, shards are not: this gives every viewer the same colours.
  for (const worker of snapshot.workers) ownerIndex(worker.name);
  showFacts(snapshot);
  showVerdict(snapshot.verdict);
  showLegend(snapshot, (words) => table.searchFor(words));
  drawRiver();
  table.show(snapshot, selectedId);
  showDetails(snapshot, selectedId, { choose, act, actions });
  showWorkers(snapshot.workers);
  showTrouble(snapshot, state.payloads);
  at("payloads").hidden = !state.hasToken || snapshot.dead_letters.length === 0;
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

// Payloads are sent only with the token, which an EventSource cannot carry.
async function fetchPayloads() {
  const headers = { Authorization: `Bearer ${at("payload-token").value}` };
  try {
    const response = await fetch("/snapshot", { headers });
    const answer = await response.json();
    setText(at("payloads-answer"), response.ok ? "" : answer.message);
    if (!response.ok) return;
    for (const letter of answer.dead_letters) state.payloads.set(letterKey(letter), letter.payload);
    show();
  } catch {
    setText(at("payloads-answer"), "the token cannot be sent, or the dashboard does not answer");
  }
}

function showLink(word, text) {
  at("link").dataset.state = word;
  setText(at("link-text"), text);
}

function listen() {
  const source = new EventSource("/events");
  source.addEventListener("error", () => showLink("lost", "not connected, trying again"));
  source.addEventListener("snapshot", (event) => {
    state.snapshot = JSON.parse(event.data);
    const word = state.snapshot.notice ? "stale" : "live";
    showLink(word, word);
    clearTimeout(state.watchdog);
    state.watchdog = setTimeout(() => showLink("stale", "stale: no news"), SILENT_PULSES * state.pulseSeconds * 1000);
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
at("show-payloads").addEventListener("click", fetchPayloads);
fetch("/about").then((r) => r.json()).then((about) => {
  state.actions = about.actions;
  state.hasToken = about.token;
  state.pulseSeconds = about.pulse_seconds;
  show();
}).catch(() => {});
listen();
