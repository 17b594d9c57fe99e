// The console in a real Chromium: every view, a completed query, pages, a trace, login, read-only, foreign origins, axe-core.
'use strict';

const assert = require('assert');
const fs = require('fs');
const http = require('http');
const { chromium } = require('playwright-core');

const BASE = `http://${process.env.DOORS}/`;
// Where pictures are wanted: a folder.
const IMAGES = process.env.CONSOLE_IMAGES;
const CHROMIUMS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

async function post(path, body, headers = {}) {
  const response = await fetch(BASE + path, {
    method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}

async function picture(page, name, options = {}) {
  if (IMAGES) await page.screenshot({ path: `${IMAGES}/${name}.png`, ...options });
}

async function logIn(page) {
  await page.waitForSelector('#login[open]');
  await page.fill('#user', 'cassandra');
  await page.fill('#password', 'cassandra');
  await page.keyboard.press('Enter');
  await page.waitForSelector('html[data-ready]');
}

// What is seen once nothing moves: while a background passes from one theme to the other, its contrast is neither's.
async function violations(page) {
  await page.evaluate(() => Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => {}))));
  const source = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  return page.evaluate(async (text) => {
    (0, eval)(text);
    return (await axe.run()).violations.map((found) => `${found.id}: ${found.nodes.map((node) => node.target.join(' ')).join(', ')}`);
  }, source);
}

const tests = {
  async login({ page }) {
    await page.goto(BASE);
    await page.waitForSelector('#login[open]');
    await page.fill('#user', 'cassandra');
    await page.fill('#password', 'wrong');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.getElementById('login-error').textContent.includes('incorrect'));
    await logIn(page);
  },

  async now({ page }) {
    await page.waitForFunction(() => document.querySelectorAll('#tiles .tile').length === 8);
    await page.waitForSelector('#memory .bar');
    await page.waitForSelector('#clients td');
    // The page's own reads are measured, too.
    await page.waitForFunction(() => {
      const tile = [...document.querySelectorAll('#tiles .tile')].find((one) => one.querySelector('.name').textContent === 'Reads take');
      return /^\d+\.\d\dms p99p50 \d+\.\d\d$/.test(tile.querySelector('.value').textContent);
    });
    const metrics = await (await fetch(`${BASE}metrics`)).text();
    assert.match(metrics, /^helenus_door_connections [1-9]/m);
    await page.waitForFunction(() => document.getElementById('tasks').textContent.includes('under way'));
    await page.waitForTimeout(3000);
    await picture(page, 'console-now', { fullPage: true });
  },

  // Every SELECT is slow to this node that does not name its partition.
  async slow_queries({ page, token }) {
    const query = 'SELECT count(*) FROM console.orders WHERE id = 7 ALLOW FILTERING';
    for (let time = 0; time < 2; time += 1) {
      assert.strictEqual((await post('v1/query', { query }, { 'X-Cassandra-Token': token })).status, 200);
    }
    const row = page.locator('#slow tbody tr', { hasText: query });
    await row.waitFor();
    const cells = await row.locator('td').allTextContents();
    assert.deepStrictEqual([cells[3], cells[4], cells[6]], ['2', 'console.orders', query]);
    assert.match(cells[5], /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    assert.match(await page.textContent('#slow-after'), /over 1us/);
    await row.focus();
    await page.keyboard.press('Enter');
    assert.strictEqual(await page.inputValue('#cql'), query);
    assert.ok(await page.isVisible('#query'));
  },

  async query_pages_and_trace({ page }) {
    await page.keyboard.press('3');
    await page.fill('#cql', '');
    await page.type('#cql', 'SELECT * FROM console.ord');
    await page.waitForSelector('#choices li');
    await page.keyboard.press('Tab');
    assert.strictEqual(await page.inputValue('#cql'), 'SELECT * FROM console.orders');
    await page.check('#trace');
    await page.selectOption('#page-size', '50');
    await page.focus('#cql');
    await page.keyboard.press('Control+Enter');
    await page.waitForSelector('#result tbody tr');
    await page.waitForSelector('#waterfall .step');
    assert.strictEqual(await page.locator('#result tbody tr').count(), 50);
    await picture(page, 'console-query');
    await page.click('#more');
    await page.waitForFunction(() => document.querySelectorAll('#result tbody tr').length === 60);
    assert.strictEqual(await page.isVisible('#more'), false);
  },

  async explain({ page }) {
    await page.uncheck('#trace');
    await page.check('#explain');
    const facts = async (query) => {
      await page.fill('#cql', query);
      await page.click('#run');
      await page.waitForFunction(() => document.getElementById('outcome').textContent.includes('rows'));
      await page.waitForSelector('#reads dd');
      const texts = await page.locator('#reads .facts > div').evaluateAll((all) => all.map((fact) => [...fact.children].map((part) => part.textContent)));
      return Object.fromEntries(texts);
    };
    const scan = await facts('SELECT count(*) FROM console.orders WHERE price > 3 ALLOW FILTERING');
    assert.strictEqual(scan['Rows read'], '60for 1 in the answer');
    assert.strictEqual(scan.Index, 'none');
    const indexed = await facts("SELECT id FROM console.orders WHERE item = 'lamp 7'");
    assert.strictEqual(indexed['Rows read'], '1for 1 in the answer');
    assert.strictEqual(indexed.Index, 'by_itemled to the rows');
    assert.strictEqual(await page.isVisible('#waterfall'), false);
    await picture(page, 'console-explain');
    await page.uncheck('#explain');
  },

  async errors_are_shown_as_text({ page }) {
    await page.fill('#cql', 'SELECT <b id="x">');
    await page.click('#run');
    await page.waitForFunction(() => document.getElementById('outcome').textContent.includes('SYNTAX_ERROR'));
    assert.strictEqual(await page.locator('#x').count(), 0);
  },

  async read_only({ page }) {
    await page.check('#read-only');
    await page.fill('#cql', 'TRUNCATE console.orders');
    await page.click('#run');
    await page.waitForFunction(() => document.getElementById('outcome').textContent.includes('Only statements that read'));
    await page.uncheck('#read-only');
  },

  async tables({ page }) {
    await page.click('#tab-tables');
    await page.waitForSelector('#table-list td');
    await page.fill('#filter', 'console.');
    await page.waitForFunction(() => document.querySelectorAll('#table-list tbody tr').length === 1);
  },

  async operations({ page, token }) {
    const headers = { 'X-Cassandra-Token': token };
    const rows = async () => (await post('v1/query', { query: 'SELECT count(*) FROM console.orders' }, headers)).body.rows[0].count;
    // Every width that a bar of progress is shown with.
    await page.evaluate(() => {
      window.widths = [];
      new MutationObserver(() => {
        for (const fill of document.querySelectorAll('#operation-list .fill')) window.widths.push(fill.style.width);
      }).observe(document.getElementById('operation-list'), { childList: true, subtree: true });
    });
    const open = async () => {
      await page.click('#table-list tbody tr:has-text("console.orders") button');
      await page.waitForSelector('#operate[open]');
    };
    const outcome = async (text) => {
      await page.waitForFunction((wanted) => document.querySelector('#operation-list > :first-child p')?.textContent.includes(wanted), text);
    };

    await open();
    await page.keyboard.press('Escape');
    await page.waitForSelector('#operate', { state: 'hidden' });
    await open();
    await page.click('#operation-run');
    await outcome('Compact, console.orders: 1 table compacted');
    assert.ok(await page.evaluate(() => window.widths.includes('100%')));

    await open();
    await page.selectOption('#operation', 'snapshot_create');
    await page.fill('#snapshot-name', 'before');
    assert.deepStrictEqual(await violations(page), [], 'the dialog');
    await picture(page, 'console-operate');
    await page.selectOption('#operation-scope', 'keyspace');
    assert.match(await page.textContent('#operation-about'), /all tables of console/);
    await page.click('#operation-run');
    await outcome('Take a snapshot, all tables of console: 1 table');

    assert.strictEqual((await post('v1/query', { query: 'DELETE FROM console.orders WHERE customer = 1' }, headers)).status, 200);
    assert.strictEqual(await rows(), 40);
    await open();
    await page.selectOption('#operation', 'snapshot_restore');
    await page.selectOption('#snapshot', 'before');
    await page.check('#replace');
    // Nobody loses rows by one click.
    await page.click('#operation-run');
    assert.ok(await page.isVisible('#operate'));
    assert.strictEqual(await rows(), 40);
    await page.check('#sure');
    await page.click('#operation-run');
    await outcome('Restore a snapshot, console.orders: ');
    assert.strictEqual(await rows(), 60);

    const listed = await (await fetch(`${BASE}v1/operations`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify({ request: 'snapshot_list' }),
    })).text();
    const { folder } = JSON.parse(listed.trim().split('\n').pop()).answer.snapshots.find((snapshot) => snapshot.name === 'before');
    assert.strictEqual((await post('v1/query', { query: 'TRUNCATE console.orders' }, headers)).status, 200);
    await open();
    await page.selectOption('#operation', 'import');
    await page.fill('#folder', folder);
    await page.click('#operation-run');
    await outcome('Import SSTables, console.orders: 1 SSTable, 60 rows, ');
    assert.strictEqual(await rows(), 60);
    await open();
    await page.selectOption('#operation', 'import');
    await page.fill('#folder', '/no/such/folder');
    await page.click('#operation-run');
    await page.waitForSelector('#operation-list [role=alert]:has-text("/no/such/folder")');

    for (const [operation, wanted] of [['flush', 'Flush, console.orders: 1 table flushed'], ['compaction_stop', '0 compactions stopped']]) {
      await open();
      await page.selectOption('#operation', operation);
      await page.focus('#operation-run');
      await page.keyboard.press('1');
      assert.ok(await page.isVisible('#tables'));
      await page.click('#operation-run');
      await outcome(wanted);
    }

    await open();
    await page.selectOption('#operation', 'snapshot_remove');
    await page.selectOption('#snapshot', 'before');
    await page.check('#sure');
    await page.click('#operation-run');
    await outcome('freed');
    const left = await post('v1/query', { query: 'SELECT name FROM system_views.snapshots' }, headers);
    assert.ok(left.body.rows.every((row) => row.name !== 'before'));

    await page.check('#read-only');
    await page.waitForSelector('#table-list button:disabled');
    await page.uncheck('#read-only');
    await page.waitForSelector('#table-list button:enabled');
  },

  // Compactions here are over at once: this one is of the browser's side.
  async progress_of_compactions({ page }) {
    const task = { keyspace_name: 'console', table_name: 'orders', kind: 'compaction', completion_ratio: 0.25, progress: 256, total: 1024 };
    const others = { ...task, table_name: 'others', progress: 1024 };
    await page.route('**/v1/query', (route) => (route.request().postData().includes('sstable_tasks')
      ? route.fulfill({ json: { rows: [task, others] } }) : route.continue()));
    let end;
    const ended = new Promise((resolve) => { end = resolve; });
    await page.route('**/v1/operations', async (route) => {
      await ended;
      await route.fulfill({ body: '{"reply":"failed","message":"the disk is full"}\n' });
    });
    await page.click('#table-list tbody tr:has-text("console.orders") button');
    await page.click('#operation-run');
    await page.waitForFunction(() => document.querySelector('#operation-list .fill')?.style.width === '25%');
    assert.match(await page.textContent('#operation-list > :first-child'), /256 B/);
    await page.waitForFunction(() => document.getElementById('tasks').textContent.includes('compaction console.orders25 %'));
    end();
    await page.waitForSelector('#operation-list > :first-child [role=alert]:has-text("the disk is full")');
    await page.unroute('**/v1/query');
    await page.unroute('**/v1/operations');
  },

  async operations_are_superusers({ token }) {
    const headers = { 'X-Cassandra-Token': token };
    const query = "CREATE ROLE app WITH PASSWORD = 'app' AND LOGIN = true";
    assert.strictEqual((await post('v1/query', { query }, headers)).status, 200);
    const app = (await post('v1/auth', { username: 'app', password: 'app' })).body.authToken;
    const asked = { request: 'compaction_major', tables: { keyspace: 'console' } };
    assert.strictEqual((await post('v1/operations', asked)).status, 401);
    assert.strictEqual((await post('v1/operations', asked, { 'X-Cassandra-Token': app })).status, 403);
    assert.strictEqual((await post('v1/operations', asked, { ...headers, Origin: 'http://evil.example' })).status, 403);
  },

  // What was compacted is read from the disk, once.
  async explain_of_what_is_on_the_disk({ page }) {
    await page.click('#tab-query');
    await page.check('#explain');
    const facts = async () => {
      await page.fill('#cql', 'SELECT item FROM console.orders WHERE customer = 2 AND id = 5');
      await page.click('#run');
      await page.waitForFunction(() => document.getElementById('outcome').textContent.includes('rows'));
      await page.waitForSelector('#reads dd');
      return (await page.textContent('#reads')).replaceAll(/\s+/g, ' ');
    };
    assert.match(await facts(), /SSTables opened1.*Data pages\d+ of [1-9]/);
    assert.match(await facts(), /SSTables opened0.*Row cache1 of 1/);
    await page.uncheck('#explain');
  },

  async accessible({ page }) {
    for (const view of ['now', 'tables', 'query']) {
      await page.click(`#tab-${view}`);
      await page.waitForTimeout(200);
      assert.deepStrictEqual(await violations(page), [], view);
    }
    await page.click('#theme');
    assert.deepStrictEqual(await violations(page), [], 'the other theme');
  },

  async phone({ browser }) {
    const context = await browser.newContext({ viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
    const page = await context.newPage();
    await page.goto(BASE);
    await logIn(page);
    await page.waitForTimeout(3000);
    await picture(page, 'console-phone');
    const isTooWide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    assert.strictEqual(await isTooWide(), false, 'now');
    await page.click('#tab-tables');
    await page.click('#table-list tbody tr:has-text("console.orders") button');
    await page.waitForSelector('#operate[open]');
    const { x, width } = await page.locator('#operate').boundingBox();
    assert.ok(x >= 0 && x + width <= 390, 'the dialog');
    assert.deepStrictEqual(await violations(page), [], 'the dialog');
    await page.click('#operation-run');
    await page.waitForSelector('#operation-list p');
    assert.strictEqual(await isTooWide(), false, 'tables');
    await page.click('#tab-query');
    await page.check('#explain');
    await page.fill('#cql', 'SELECT * FROM console.orders');
    await page.click('#run');
    await page.waitForSelector('#reads dd');
    assert.strictEqual(await isTooWide(), false, 'query');
    assert.deepStrictEqual(await violations(page), [], 'query');
    await context.close();
  },

  async foreign_pages_get_nothing({ browser, token }) {
    const foreign = http.createServer((_, response) => response.end('<!doctype html><title>foreign</title>'));
    await new Promise((resolve) => foreign.listen(0, '127.0.0.1', resolve));
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${foreign.address().port}/`);
    const outcomes = await page.evaluate(async ([base, shown]) => {
      const asked = [
        fetch(`${base}v1/information`),
        fetch(`${base}v1/query`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Cassandra-Token': shown }, body: '{}' }),
      ];
      return (await Promise.allSettled(asked)).map((outcome) => outcome.status);
    }, [BASE, token]);
    assert.deepStrictEqual(outcomes, ['rejected', 'rejected']);
    // What the page may send without asking is refused, too.
    const status = await page.evaluate((base) => fetch(`${base}metrics`, { mode: 'no-cors' }).then((answer) => answer.type), BASE);
    assert.strictEqual(status, 'opaque');
    const refused = await fetch(`${BASE}metrics`, { headers: { Origin: 'http://evil.example' } });
    assert.strictEqual(refused.status, 403);
    await page.close();
    foreign.close();
  },
};

async function prepare() {
  const login = await post('v1/auth', { username: 'cassandra', password: 'cassandra' });
  const token = login.body.authToken;
  const headers = { 'X-Cassandra-Token': token };
  for (const query of [
    "CREATE KEYSPACE console WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    'CREATE TABLE console.orders (customer int, id int, item text, price decimal, tags set<text>, PRIMARY KEY (customer, id))',
    'CREATE INDEX by_item ON console.orders (item)',
  ]) assert.strictEqual((await post('v1/query', { query }, headers)).status, 200);
  for (let id = 0; id < 60; id += 1) {
    const values = [id % 3, id, `lamp ${id}`, id + 0.5, ['new']];
    const query = 'INSERT INTO console.orders (customer, id, item, price, tags) VALUES (?, ?, ?, ?, ?)';
    assert.strictEqual((await post('v1/query', { query, values }, headers)).status, 200);
  }
  return token;
}

// Chromium as npm has it, for machines without one. It is packed for another machine, and brings libraries along where it takes this one for it.
async function packedChromium() {
  process.env.AWS_LAMBDA_JS_RUNTIME ??= 'nodejs22.x';
  return require('@sparticuz/chromium').executablePath();
}

async function main() {
  const executablePath = CHROMIUMS.find((path) => path && fs.existsSync(path)) ?? await packedChromium();
  const token = await prepare();
  const browser = await chromium.launch({ executablePath, args: ARGUMENTS });
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: 'light' });
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  let failed = false;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test({ browser, page, token });
      assert.deepStrictEqual(complaints, []);
      console.log(`ok ${name}`);
    } catch (error) {
      console.error(error);
      console.log(`FAIL ${name}: ${String(error.message).split('\n')[0]}`);
      failed = true;
    }
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => {
  console.log(`FAIL console: ${error}`);
  process.exit(1);
});
