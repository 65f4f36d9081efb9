// Run by test_dot_product.py and test_heads.py, which write the cases with numbers from mha.reference.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf8"));

function close(actual, expected, where, tolerance) {
  if (Array.isArray(expected)) {
    assert.equal(actual.length, expected.length, where);
    expected.forEach((value, i) => close(actual[i], value, `${where}[${i}]`, tolerance));
  } else if (typeof expected === "number") {
    assert.ok(Math.abs(actual - expected) <= tolerance * Math.max(1, Math.abs(expected)), `${where}: ${actual} is not ${expected}`);
  } else assert.equal(actual, expected, where);
}

// A picture is compared as its words and its numbers; the last written decimal may be rounded either way.
const NUMBER = /-?\d+(\.\d+)?/g;
function samePicture(actual, expected) {
  assert.equal(actual.replace(NUMBER, "#"), expected.replace(NUMBER, "#"));
  const [ours, theirs] = [actual, expected].map((picture) => picture.match(NUMBER).map(Number));
  theirs.forEach((value, i) => assert.ok(Math.abs(ours[i] - value) < 0.0011, `number ${i}: ${ours[i]} is not ${value}`));
}

for (const [index, expected] of cases.entries()) {
  const { kind, state, moves } = expected;
  const { compute, sentence, alt, picture } = await import(`./${kind}.js`);
  const name = `${kind} ${index}`;

  test(`${name}: numbers`, () => {
    const found = compute(state);
    for (const key of Object.keys(expected.compute)) close(found[key], expected.compute[key], key, 1e-9);
  });
  test(`${name}: words`, () => {
    assert.equal(sentence(state), expected.sentence);
    assert.equal(alt(state), expected.alt);
  });
  test(`${name}: picture`, () => samePicture(picture(state), expected.picture));
  for (const [setting, value] of Object.entries(moves))
    test(`${name}: ${setting} moves the picture`, () => {
      assert.notEqual(picture({ ...state, [setting]: value }), picture(state));
    });
}
