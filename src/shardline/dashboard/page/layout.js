// Where everything in the river lies. Plain numbers in, plain numbers out; no element is touched.

import { isPast } from "/format.js";

const LABEL_WIDTH = 176;
const AXIS_HEIGHT = 24;
const TOP = 8;

// Each shard's part of the height, from 0 to 1. The hash space is stretched so that every piece
// between two borders gets the same height; shards that live at one time never overlap.
export function lanesOf(shards) {
  const withRange = shards.length > 0 && shards.every((s) => s.hash_start !== null);
  const spans = withRange ? shards.map((s) => [s.hash_start, s.hash_end]) : spansByLineage(shards);
  const borders = [...new Set(spans.flat())].sort((a, b) => a - b);
  const rank = new Map(borders.map((border, index) => [border, index]));
  const pieces = Math.max(1, borders.length - 1);
  const lanes = new Map();
  shards.forEach((shard, index) => {
    const [start, end] = spans[index];
    lanes.set(shard.id, { top: rank.get(start) / pieces, bottom: rank.get(end) / pieces });
  });
  return { lanes, pieces };
}

// DynamoDB Streams publishes no hash ranges: each leaf gets a lane, a parent those of its leaves.
function spansByLineage(shards) {
  const children = childrenOf(shards);
  const known = new Set(shards.map((s) => s.id));
  const span = new Map();
  let next = 0;
  const place = (root) => {
    const stack = [[root, false]];
    while (stack.length) {
      const [id, done] = stack.pop();
      const below = children.get(id) ?? [];
      if (done) {
        const spans = below.map((child) => span.get(child)).filter(Boolean);
        span.set(id, [Math.min(...spans.map((s) => s[0])), Math.max(...spans.map((s) => s[1]))]);
      } else if (!span.has(id)) {
        if (below.length === 0) {
          span.set(id, [next, next + 1]);
          next += 1;
        } else {
          span.set(id, [next, next]);
          stack.push([id, true], ...below.toReversed().map((child) => [child, false]));
        }
      }
    }
  };
  for (const shard of shards) if (!shard.parents.some((p) => known.has(p))) place(shard.id);
  for (const shard of shards) if (!span.has(shard.id)) place(shard.id);
  return shards.map((s) => span.get(s.id));
}

export function childrenOf(shards) {
  const children = new Map();
  for (const shard of shards) {
    for (const parent of shard.parents) {
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(shard.id);
    }
  }
  return children;
}

// From when to when each shard takes records. What the service does not tell is -Infinity.
export function livesOf(shards, now) {
  const lives = new Map();
  for (const s of shards) {
    lives.set(s.id, { from: s.opened_at ?? -Infinity, to: s.closed ? s.closed_at : now });
  }
  for (const s of shards) {
    for (const parent of s.parents) {
      const life = lives.get(parent);
      if (life && life.to === null && s.opened_at !== null) life.to = s.opened_at;
    }
  }
  for (const s of shards) {
    const life = lives.get(s.id);
    if (life.to === null) life.to = life.from;
    if (life.from === -Infinity) {
      for (const parent of s.parents) {
        const above = lives.get(parent);
        if (above && above.to !== null && Number.isFinite(above.to)) life.from = above.to;
      }
    }
    life.to = Math.max(life.to, life.from);
  }
  return lives;
}

export function windowOf(shards, lives, now, chosen) {
  if (chosen !== "auto") return { from: now - Number(chosen), to: now };
  let first = now - 60;
  for (const s of shards) {
    const { from, to } = lives.get(s.id);
    if (s.parents.length && Number.isFinite(from)) first = Math.min(first, from);
    if (s.closed && Number.isFinite(to)) first = Math.min(first, to);
    if (s.lag_seconds !== null) first = Math.min(first, now - s.lag_seconds);
    for (const tenure of s.tenures.slice(1)) first = Math.min(first, tenure.since);
  }
  return { from: now - (now - first) * 1.18, to: now };
}

export function heightFor(pieces) {
  if (pieces <= 3) return 96 + 36 * pieces;
  return Math.round(Math.min(Math.max(pieces * 30, 190), Math.max(520, Math.min(pieces * 2.4, 900))));
}

// The whole picture: for each shard a band of coloured segments, and ribbons from its parents.
export function riverOf(snapshot, { width, chosen }) {
  const shards = snapshot.shards;
  const now = snapshot.at;
  const lives = livesOf(shards, now);
  const time = windowOf(shards, lives, now, chosen);
  const visible = shards.filter((s) => lives.get(s.id).to >= time.from || !s.closed);
  const { lanes, pieces } = lanesOf(visible);
  const inner = heightFor(pieces);
  const labelled = inner / pieces >= 12.5 || visible.length <= 12;
  const right = width - (labelled ? LABEL_WIDTH : 12);
  const x = (t) => Math.max(0, Math.min(right, (right * (t - time.from)) / (time.to - time.from)));
  const fastest = Math.max(...visible.map((s) => s.records_per_second ?? 0), 1e-9);
  const bands = new Map();
  for (const shard of visible) {
    const lane = lanes.get(shard.id);
    const life = lives.get(shard.id);
    const laneHeight = (lane.bottom - lane.top) * inner;
    bands.set(shard.id, {
      shard,
      x0: x(life.from),
      x1: Math.max(x(life.to), x(life.from)),
      y: TOP + ((lane.top + lane.bottom) / 2) * inner,
      thick: thickness(shard, laneHeight, fastest),
      laneHeight,
      reaches: !shard.closed,
    });
  }
  joinRibbons(bands, right);
  for (const band of bands.values()) band.segments = segmentsOf(band, x);
  return {
    width,
    height: inner + TOP + AXIS_HEIGHT,
    inner: inner + TOP,
    right,
    labelled,
    leased: snapshot.app !== null,
    bands: [...bands.values()],
    ticks: ticksOf(time, x),
    nowX: x(now),
  };
}

function thickness(shard, laneHeight, fastest) {
  if (shard.closed && shard.state !== "readable") return clamp(laneHeight * 0.3, 0.8, 6);
  if (shard.closed) return clamp(laneHeight * 0.5, 1, 12);
  const known = shard.records_per_second !== null;
  const part = known ? 0.35 + 0.65 * Math.sqrt(shard.records_per_second / fastest) : 0.7;
  return clamp(laneHeight * 0.86, 1, 34) * part;
}

// A ribbon leads from the parent's end to the child's beginning, and takes a little of its length.
function joinRibbons(bands, right) {
  const heirs = new Map();
  for (const band of bands.values()) {
    for (const parent of band.shard.parents) {
      if (!bands.has(parent)) continue;
      if (!heirs.has(parent)) heirs.set(parent, []);
      heirs.get(parent).push(band);
    }
  }
  for (const band of bands.values()) {
    const parents = band.shard.parents.map((p) => bands.get(p)).filter(Boolean);
    band.ribbons = [];
    if (parents.length === 0) continue;
    const room = Math.max(0, Math.max(band.x1, band.x0) - band.x0);
    const bend = Math.min(26, Math.max(room * 0.5, Math.min(8, right - band.x0)));
    parents.sort((a, b) => a.y - b.y).forEach((parent, index) => {
      const siblings = heirs.get(parent.shard.id).sort((a, b) => a.y - b.y);
      const place = siblings.indexOf(band);
      band.ribbons.push({
        parent,
        x0: Math.min(parent.x1, band.x0),
        y0: parent.y + parent.thick * ((place + 0.5) / siblings.length - 0.5),
        t0: parent.thick / siblings.length,
        x1: band.x0 + bend,
        y1: band.y + band.thick * ((index + 0.5) / parents.length - 0.5),
        t1: band.thick / parents.length,
      });
    });
    band.x0 = band.x0 + bend;
    band.x1 = Math.max(band.x1, band.x0);
  }
}

// One piece for each worker that read a part of it; what nobody has read yet is pale.
function segmentsOf(band, x) {
  const { shard, x0, x1 } = band;
  const segments = [];
  let from = x0;
  const add = (to, owner, unread) => {
    const end = clamp(to, from, x1);
    if (end > from) segments.push({ x0: from, x1: end, owner, unread });
    from = end;
  };
  for (const read of shard.reads) add(x(read.upto), read.owner, false);
  const allRead = isPast(shard) || shard.state === "open" || (shard.reads.length === 0 && shard.owner !== null);
  add(x1, allRead ? (shard.owner ?? shard.reads.at(-1)?.owner ?? null) : shard.owner, !allRead);
  if (segments.length === 0) segments.push({ x0, x1, owner: shard.owner, unread: !allRead });
  const last = segments.at(-1);
  if (shard.owner && last.owner !== shard.owner) { // who holds it now is always to be seen
    segments.push({ x0: Math.max(x0, x1 - 2), x1, owner: shard.owner, unread: true });
  }
  return segments;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800];

function ticksOf(time, x) {
  const wanted = (time.to - time.from) / Math.max(2, Math.min(8, x(time.to) / 110));
  const step = STEPS.find((s) => s >= wanted) ?? 604800;
  const shift = new Date(time.to * 1000).getTimezoneOffset() * 60;
  const ticks = [];
  for (let t = Math.ceil((time.from - shift) / step) * step + shift; t <= time.to; t += step) {
    ticks.push({ x: x(t), at: t, fine: step < 60 });
  }
  return ticks;
}

function clamp(value, least, most) {
  return Math.max(least, Math.min(most, value));
}
