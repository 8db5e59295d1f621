// Texts, numbers and colours, the same everywhere on the page.

export const OWNER_COLOURS = 8;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond >= 10000) return `${(perSecond / 1000).toFixed(0)}k`;
  if (perSecond >= 1000) return `${(perSecond / 1000).toFixed(1)}k`;
  return perSecond < 10 && perSecond > 0 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

export function count(number) {
  return number.toLocaleString("en-US");
}

export function percent(part) {
  if (part === null || part === undefined) return "–";
  return part < 0.0995 ? `${(part * 100).toFixed(1)} %` : `${Math.round(part * 100)} %`;
}

export function clock(seconds, withSeconds = true) {
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (withSeconds) options.second = "2-digit";
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", options);
}

// Returns …012 for shardId-000000000012: the part that differs between shards.
export function shortShardId(shardId) {
  const cut = shardId.lastIndexOf("-");
  if (cut < 0) return shardId;
  const number = shardId.slice(cut + 1);
  if (shardId.startsWith("shardId-") && /^\d+$/.test(number) && cut === 7) {
    return `…${number.replace(/^0+/, "").padStart(3, "0")}`;
  }
  return `…${number}`;
}

// An owner is a worker's name and, after the last slash, one incarnation of it.
export function workerName(owner) {
  const cut = owner.lastIndexOf("/");
  return cut > 0 ? owner.slice(0, cut) : owner;
}

const indexes = new Map();

// Each worker keeps the colour it was first seen with.
export function ownerIndex(owner) {
  const name = workerName(owner);
  if (!indexes.has(name)) indexes.set(name, indexes.size);
  return indexes.get(name);
}

// Workers beyond the palette share a colour and differ by stripes, and always by their label.
export function ownerColour(owner) {
  return `var(--owner-${ownerIndex(owner) % OWNER_COLOURS})`;
}

export function ownerStriped(owner) {
  return Math.floor(ownerIndex(owner) / OWNER_COLOURS) % 2 === 1;
}

export function stateWords(shard) {
  if (shard.state === "waiting") return `waiting for ${shard.waits_for.map(shortShardId).join(", ")}`;
  if (shard.state === "readable" && !shard.owner) return "no owner";
  if (shard.state === "readable") return shard.closed ? "draining" : "reading";
  if (shard.state === "undiscovered") return "not listed";
  return shard.state;
}

export function isPast(shard) {
  return shard.state === "drained" || shard.state === "closed" || shard.state === "trimmed";
}

export function sentence(shard) {
  const parts = [`Shard ${shard.id}`, stateWords(shard)];
  if (shard.owner) parts.push(`owner ${workerName(shard.owner)}`);
  if (shard.lag_seconds !== null) parts.push(`lag ${duration(shard.lag_seconds)}`);
  if (shard.records_per_second !== null) parts.push(`${rate(shard.records_per_second)} records a second`);
  return parts.join(", ");
}

// The only functions of this page that make elements: contents are text, never markup.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  return fill(made, attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return fill(made, attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export function letterKey(letter) {
  return `${letter.shard_id} ${letter.sequence_number} ${letter.at}`;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
