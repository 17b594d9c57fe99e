// The Node.js driver as an application uses it: types, paging, batches, errors, events, restart.
'use strict';

const assert = require('assert');
const readline = require('readline');
const cassandra = require('cassandra-driver');

const { types } = cassandra;
const KEYSPACE = 'node_driver';
// How long the driver may take to notice a schema change or a restart.
const NOTICE_MS_MAX = 60000;
const NO_COUNTERS = 'Counter updates are not supported yet';

function connect(options = {}) {
  return new cassandra.Client({
    contactPoints: [process.env.CQL_HOST],
    localDataCenter: options.localDataCenter,
    protocolOptions: { port: Number(process.env.CQL_PORT), maxVersion: options.maxVersion },
    policies: { loadBalancing: new cassandra.policies.loadBalancing.RoundRobinPolicy(),
                reconnection: new cassandra.policies.reconnection.ConstantReconnectionPolicy(200) },
    socketOptions: { readTimeout: 30000, connectTimeout: 20000 },
    queryOptions: { prepare: true, consistency: types.consistencies.one },
  });
}

// Ends a check that cannot be made here.
class Skipped extends Error {}

async function until(condition, what) {
  const end = Date.now() + NOTICE_MS_MAX;
  while (Date.now() < end) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${what} did not happen`);
}

async function expectError(client, cql, code, words) {
  try {
    await client.execute(cql, [], { prepare: false });
  } catch (error) {
    assert.strictEqual(error.code, code, `${cql}: ${error}`);
    assert.ok(error.message.includes(words), `${cql}: ${error.message}`);
    return;
  }
  throw new Error(`${cql}: no error`);
}

const tests = {
  async schema(client) {
    await client.execute(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`);
    await client.execute(`CREATE KEYSPACE ${KEYSPACE} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
    await client.execute(`USE ${KEYSPACE}`, [], { prepare: false });
    await client.execute('CREATE TYPE address (street text, zip int)');
    await client.execute('CREATE TYPE person (name text, home frozen<address>, phones set<text>)');
    await client.execute('CREATE TABLE kv (k int, c int, v text, PRIMARY KEY (k, c))');
  },

  async metadata(client) {
    const table = await client.metadata.getTable(KEYSPACE, 'kv');
    assert.deepStrictEqual(table.partitionKeys.map((column) => column.name), ['k']);
    assert.deepStrictEqual(table.clusteringKeys.map((column) => column.name), ['c']);
    const address = await client.metadata.getUdt(KEYSPACE, 'address');
    assert.deepStrictEqual(address.fields.map((field) => field.name), ['street', 'zip']);
    const host = client.hosts.values()[0];
    assert.ok(host.cassandraVersion.startsWith('5.0'), host.cassandraVersion);
  },

  async 'native types'(client) {
    const values = {
      ascii: 'plain', bigint: types.Long.fromString('-9223372036854775808'), blob: Buffer.from([0, 255]), boolean: true,
      date: types.LocalDate.fromString('2024-02-29'), decimal: types.BigDecimal.fromString('-123.4500'),
      double: 2.5e-300, duration: types.Duration.fromString('1mo2d3us'), float: 0.5,
      inet: types.InetAddress.fromString('2001:db8::1'), int: -2147483648, smallint: -32768, text: 'ünï 漢 😀',
      time: types.LocalTime.fromString('23:59:59.999999999'), timestamp: new Date('2024-02-29T01:02:03.456Z'),
      timeuuid: types.TimeUuid.now(), tinyint: -128, uuid: types.Uuid.random(), varchar: '',
      varint: types.Integer.fromString('-1267650600228229401496703205376'),
    };
    const names = Object.keys(values);
    await client.execute(`CREATE TABLE natives (id int PRIMARY KEY, ${names.map((name) => `c_${name} ${name}`).join(', ')})`);
    const columns = names.map((name) => `c_${name}`).join(', ');
    const insert = `INSERT INTO natives (id, ${columns}) VALUES (?${', ?'.repeat(names.length)})`;
    await client.execute(insert, [1, ...Object.values(values)]);
    await client.execute(insert, [2, ...names.map(() => null)]);
    const row = (await client.execute(`SELECT ${columns} FROM natives WHERE id = ?`, [1])).first();
    for (const name of names) assert.strictEqual(String(row[`c_${name}`]), String(values[name]), name);
    const empty = (await client.execute(`SELECT ${columns} FROM natives WHERE id = ?`, [2])).first();
    for (const name of names) assert.strictEqual(empty[`c_${name}`], null, name);
  },

  async collections(client) {
    await client.execute('CREATE TABLE nested (id int PRIMARY KEY, l list<int>, s set<text>, m map<text, double>, ' +
      't tuple<int, text>, a frozen<address>, la list<frozen<address>>, fl frozen<list<frozen<set<int>>>>, v vector<float, 3>)');
    const home = { street: 'Main', zip: 5 };
    await client.execute('INSERT INTO nested (id, l, s, m, t, a, la, fl, v) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
      [1, [3, 1, 2], ['b', 'a'], { x: 1.5 }, new types.Tuple(7, 'seven'), home, [home], [[2, 1], [3]],
        new types.Vector(new Float32Array([1, 2.5, -3]), 'float')]);
    const row = (await client.execute('SELECT * FROM nested WHERE id = 1')).first();
    assert.deepStrictEqual([row.l, row.s, row.m, row.t.elements], [[3, 1, 2], ['a', 'b'], { x: 1.5 }, [7, 'seven']]);
    assert.deepStrictEqual([{ ...row.a }, { ...row.la[0] }, row.fl], [home, home, [[1, 2], [3]]]);
    assert.deepStrictEqual(Array.from(row.v), [1, 2.5, -3]);
  },

  async counters(client) {
    await client.execute('CREATE TABLE visits (page text PRIMARY KEY, seen counter)');
    const add = 'UPDATE visits SET seen = seen + :step WHERE page = :page';
    try {
      for (const step of [5, -2, 4]) await client.execute(add, { page: 'home', step });
    } catch (error) {
      // A server without counters has to say so by an error of its own, and not to count wrongly.
      if (error.code !== types.responseErrorCodes.invalid || error.message !== NO_COUNTERS) throw error;
      throw new Skipped(error.message);
    }
    const more = 'UPDATE visits SET seen = seen + 1 WHERE page = ?';
    await client.batch(['home', 'other'].map((page) => ({ query: more, params: [page] })), { prepare: true, counter: true });
    for (const [page, seen] of [['home', '8'], ['other', '1']]) {
      const row = (await client.execute('SELECT seen FROM visits WHERE page = ?', [page])).first();
      assert.strictEqual(String(row.seen), seen);
    }
  },

  async 'user types'(client) {
    await client.execute('CREATE TABLE people (id int PRIMARY KEY, a address, p frozen<person>, l list<frozen<address>>)');
    const home = { street: 'Main', zip: null };
    const person = { name: 'Ada', home, phones: ['1', '2'] };
    const homes = [home, { street: null, zip: 6 }];
    await client.execute('INSERT INTO people (id, a, p, l) VALUES (?, ?, ?, ?)', [1, home, person, homes]);
    await client.execute('UPDATE people SET a.zip = 8 WHERE id = 1');
    const row = (await client.execute('SELECT a, p, l FROM people WHERE id = 1')).first();
    assert.deepStrictEqual({ ...row.a }, { street: 'Main', zip: 8 });
    assert.deepStrictEqual({ ...row.p, home: { ...row.p.home } }, person);
    assert.deepStrictEqual(row.l.map((item) => ({ ...item })), homes);
  },

  // A value that is not set leaves the column as it is; null deletes it.
  async 'unset values'(client) {
    const insert = 'INSERT INTO nested (id, l, s) VALUES (?, ?, ?)';
    await client.execute(insert, [2, [1], ['x']]);
    await client.execute(insert, [2, types.unset, null]);
    const row = (await client.execute('SELECT l, s FROM nested WHERE id = 2')).first();
    assert.deepStrictEqual([row.l, row.s], [[1], null]);
  },

  async paging(client) {
    await cassandra.concurrent.executeConcurrent(client, 'INSERT INTO kv (k, c, v) VALUES (?, ?, ?)',
      Array.from({ length: 500 }, (_, c) => [1, c, `v${c}`]));
    for (const fetchSize of [7, 100, 500, 5000]) {
      const seen = [];
      for await (const row of client.stream('SELECT c FROM kv WHERE k = ?', [1], { fetchSize, prepare: true, autoPage: true })) seen.push(row.c);
      assert.deepStrictEqual(seen, Array.from({ length: 500 }, (_, c) => c));
    }
    const page = await client.execute('SELECT c FROM kv WHERE k = 1', [], { fetchSize: 200 });
    const next = await client.execute('SELECT c FROM kv WHERE k = 1', [], { fetchSize: 200, pageState: page.pageState });
    assert.deepStrictEqual([page.rowLength, next.first().c], [200, 200]);
  },

  async batches(client) {
    for (const [key, logged] of [[20, true], [21, false]]) {
      const queries = Array.from({ length: 10 }, (_, c) => ({ query: 'INSERT INTO kv (k, c, v) VALUES (?, ?, ?)', params: [key, c, 'b'] }));
      queries.push({ query: 'DELETE FROM kv WHERE k = ? AND c = ?', params: [key, 3] });
      await client.batch(queries, { prepare: true, logged });
      const row = (await client.execute('SELECT count(*) FROM kv WHERE k = ?', [key])).first();
      assert.strictEqual(Number(row.count), 9);
    }
    const counted = await client.execute('SELECT count(*) FROM kv');
    assert.ok(counted.info.warnings.length > 0, 'an aggregate without partition key warns');
  },

  // The driver computes from the values of a prepared statement the token that the server computes.
  async routing(client) {
    await client.execute('CREATE TABLE routed (a int, b text, v int, PRIMARY KEY ((a, b)))');
    for (let a = -20; a < 20; a++) {
      await client.execute('INSERT INTO routed (v, b, a) VALUES (?, ?, ?)', [0, `b${a}`, a]);
      const parts = [Buffer.alloc(4), Buffer.from(`b${a}`)];
      parts[0].writeInt32BE(a);
      // A routing key of several parts: each with its length before it and a zero byte after it.
      const key = Buffer.concat(parts.flatMap((part) => [Buffer.from([0, part.length]), part, Buffer.from([0])]));
      const row = (await client.execute('SELECT token(a, b) AS t FROM routed WHERE a = ? AND b = ?', [a, `b${a}`])).first();
      assert.strictEqual(client.metadata.newToken(key).toString(), String(row.t));
    }
  },

  async 'request options'(client) {
    await client.execute("INSERT INTO kv (k, c, v) VALUES (51, 1, 'x')", [], { timestamp: 7 });
    const written = await client.execute('SELECT writetime(v) AS at FROM kv WHERE k = 51', [], { traceQuery: true });
    assert.strictEqual(String(written.first().at), '7');
    assert.ok(written.info.traceId, 'no trace id');
  },

  async errors(client) {
    const codes = types.responseErrorCodes;
    await expectError(client, 'SELEC * FROM kv', codes.syntaxError, 'line 1:0');
    await expectError(client, 'SELECT nope FROM kv', codes.invalid, 'Undefined column name nope');
    await expectError(client, 'SELECT * FROM nope', codes.invalid, 'table nope does not exist');
    await expectError(client, 'CREATE TABLE kv (k int PRIMARY KEY)', codes.alreadyExists, 'already exist');
    await assert.rejects(client.execute('SELECT * FROM kv WHERE v = ?', ['x']), /ALLOW FILTERING/);
    const three = { consistency: types.consistencies.three };
    await assert.rejects(client.execute('SELECT * FROM kv', [], three), (error) => {
      const { code, required, alive } = error.innerErrors ? Object.values(error.innerErrors)[0] : error;
      assert.deepStrictEqual([code, required, alive], [codes.unavailableException, 3, 1]);
      return true;
    });
    const config = "CREATE KEYSPACE other WITH replication = {'class': 'NoStrategy', 'replication_factor': 1}";
    await expectError(client, config, codes.configError, 'NoStrategy');
  },

  async reprepare(client) {
    for (const columns of ['k int PRIMARY KEY, v int', 'k int PRIMARY KEY, v text, w int']) {
      await client.execute('DROP TABLE IF EXISTS again');
      await client.execute(`CREATE TABLE again (${columns})`);
      await client.execute('INSERT INTO again (k) VALUES (?)', [1]);
      const result = await client.execute('SELECT * FROM again WHERE k = ?', [1]);
      assert.strictEqual(result.columns.length, columns.split(',').length);
    }
  },

  async 'schema events'(client) {
    const other = connect();
    await other.connect();
    const columns = async () => {
      const table = await client.metadata.getTable(KEYSPACE, 'pushed');
      return table === null ? 0 : table.columns.length;
    };
    await other.execute(`CREATE TABLE ${KEYSPACE}.pushed (k int PRIMARY KEY)`);
    await until(async () => (await columns()) === 1, 'the event of CREATE TABLE');
    await other.execute(`ALTER TABLE ${KEYSPACE}.pushed ADD v int`);
    await until(async () => (await columns()) === 2, 'the event of ALTER TABLE');
    await other.execute(`DROP TABLE ${KEYSPACE}.pushed`);
    await until(async () => (await columns()) === 0, 'the event of DROP TABLE');
    await other.shutdown();
  },

  async protocols() {
    for (const maxVersion of [3, 4]) {
      const client = connect({ maxVersion });
      await client.connect();
      const text = 'long '.repeat(50000);
      await client.execute(`INSERT INTO ${KEYSPACE}.kv (k, c, v) VALUES (30, ?, ?)`, [maxVersion, text]);
      const row = (await client.execute(`SELECT v FROM ${KEYSPACE}.kv WHERE k = 30 AND c = ?`, [maxVersion])).first();
      assert.strictEqual(row.v, text);
      assert.strictEqual(client.controlConnection.protocolVersion, maxVersion);
      await client.shutdown();
    }
  },

  async restart(client) {
    await client.execute(`INSERT INTO ${KEYSPACE}.kv (k, c, v) VALUES (?, ?, ?)`, [40, 1, 'before']);
    const input = readline.createInterface({ input: process.stdin });
    console.log('restart');
    const reply = await new Promise((resolve) => { input.once('line', resolve); input.once('close', () => resolve('closed')); });
    input.close();
    if (reply !== 'restarted') throw new Skipped('the server cannot be restarted from here');
    await until(async () => {
      try {
        return (await client.execute(`SELECT v FROM ${KEYSPACE}.kv WHERE k = ? AND c = ?`, [40, 1])).first().v === 'before';
      } catch (error) {
        console.error(error);
        return false;
      }
    }, 'reading after the restart');
    // The connection that carries events has been made anew too.
    await tests['schema events'](client);
  },
};

async function main() {
  const client = connect();
  await client.connect();
  let failed = false;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test(client);
      console.log(`ok ${name}`);
    } catch (error) {
      if (error instanceof Skipped) {
        console.log(`skip ${name}: ${error.message}`);
        continue;
      }
      console.error(error);
      console.log(`FAIL ${name}: ${error.message.split('\n')[0]}`);
      failed = true;
    }
  }
  await client.shutdown();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => {
  console.log(`FAIL connect: ${error}`);
  process.exit(1);
});
