"use strict";
// The page is whole without this: it only filters and sorts what is there.
const body = document.getElementById("rows");
const rows = Array.from(body.rows);
const count = document.getElementById("count");
const whole = count.textContent;
const field = document.getElementById("filter");
const headings = Array.from(document.querySelectorAll(".verdicts thead th"));
const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

function filter() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const wanted = words.every((word) => texts.get(row).includes(word));
    row.hidden = !wanted;
    document.querySelector(row.querySelector("a").getAttribute("href")).hidden = !wanted;
    shown += wanted;
  }
  count.textContent = words.length ? `${shown} of ${whole} shown` : whole;
}

function compare(one, other, column, sign) {
  const [a, b] = [one, other].map((row) => row.cells[column].dataset.key ?? row.cells[column].textContent.toLowerCase());
  if (a === "" || b === "") return (a === "") - (b === ""); // what has no number comes last, either way
  const number = Number(a) - Number(b);
  return sign * (Number.isNaN(number) ? a.localeCompare(b, undefined, { numeric: true }) : number);
}

function sort(column) {
  const heading = headings[column];
  const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  headings.forEach((one) => one.setAttribute("aria-sort", one === heading ? direction : "none"));
  const sign = direction === "ascending" ? 1 : -1;
  body.append(...rows.toSorted((one, other) => compare(one, other, column, sign)));
}

headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => sort(column)));
field.addEventListener("input", filter);
field.parentElement.hidden = false;
if (field.value) filter(); // a reload keeps what was typed
