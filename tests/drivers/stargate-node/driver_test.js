// Stargate's client for Node.js as an application uses it: a token, a schema, every type, pages, batches, errors, streams.
'use strict';

const assert = require('assert');
const grpc = require('@grpc/grpc-js');
const stargate = require('@stargate-oss/stargate-grpc-node-client');

const ADDRESS = process.env.DOORS;
const KEYSPACE = 'stargate_node';

const { Query, QueryParameters, Batch, BatchQuery, Value, Values, Collection, UdtValue, Uuid, Inet, Varint, Decimal } = stargate;

function value(set) {
  const made = new Value();
  set(made);
  return made;
}
const int = (number) => value((made) => made.setInt(number));
const text = (string) => value((made) => made.setString(string));
const collection = (...elements) => value((made) => {
  const of = new Collection();
  of.setElementsList(elements);
  made.setCollection(of);
});
const wrapped = (Type, setter, bytes) => value((made) => {
  const inner = new Type();
  inner.setValue(Uint8Array.from(bytes));
  made[setter](inner);
});

function query(cql, values = [], parameters = null) {
  const made = new Query();
  made.setCql(cql);
  if (values.length) {
    const list = new Values();
    list.setValuesList(values);
    made.setValues(list);
  }
  if (parameters) made.setParameters(parameters);
  return made;
}

// A type, a value of it, and how to read it.
function cases() {
  const decimal = new Decimal();
  decimal.setScale(2);
  decimal.setValue(Uint8Array.from([0x7d]));
  const address = new UdtValue();
  address.getFieldsMap().set('street', text('Long Lane'));
  return [
    ['ascii', text('a'), (read) => read.getString()],
    ['bigint', int(123456789012), (read) => read.getInt()],
    ['blob', value((made) => made.setBytes(Uint8Array.from([0, 255]))), (read) => [...read.getBytes_asU8()]],
    ['boolean', value((made) => made.setBoolean(true)), (read) => read.getBoolean()],
    ['date', value((made) => made.setDate(2147483648)), (read) => read.getDate()],
    ['decimal', value((made) => made.setDecimal(decimal)), (read) => [read.getDecimal().getScale(), ...read.getDecimal().getValue_asU8()]],
    ['double', value((made) => made.setDouble(0.5)), (read) => read.getDouble()],
    ['float', value((made) => made.setFloat(1.5)), (read) => read.getFloat()],
    ['inet', wrapped(Inet, 'setInet', [127, 0, 0, 1]), (read) => [...read.getInet().getValue_asU8()]],
    ['int', int(-7), (read) => read.getInt()],
    ['list<text>', collection(text('x'), text('y')), (read) => read.getCollection().getElementsList().map((element) => element.getString())],
    ['map<text, int>', collection(text('k'), int(1)), (read) => read.getCollection().getElementsList().length],
    ['set<int>', collection(int(1), int(2)), (read) => read.getCollection().getElementsList().map((element) => element.getInt())],
    ['smallint', int(-3), (read) => read.getInt()],
    ['text', text('\u00e9'), (read) => read.getString()],
    ['time', value((made) => made.setTime(1000)), (read) => read.getTime()],
    ['timestamp', int(1767225600000), (read) => read.getInt()],
    ['tinyint', int(7), (read) => read.getInt()],
    ['tuple<int, text>', collection(int(1), text('z')), (read) => read.getCollection().getElementsList().length],
    ['frozen<address>', value((made) => made.setUdt(address)), (read) => read.getUdt().getFieldsMap().get('street').getString()],
    ['uuid', wrapped(Uuid, 'setUuid', Array(16).fill(7)), (read) => [...read.getUuid().getValue_asU8()]],
    ['varint', wrapped(Varint, 'setVarint', [1, 0]), (read) => [...read.getVarint().getValue_asU8()]],
  ];
}

const tests = {
  async token({ anonymous }) {
    await assert.rejects(anonymous.executeQuery(query('SELECT key FROM system.local'), new grpc.Metadata()),
      (error) => error.code === grpc.status.UNAUTHENTICATED);
  },

  async schema({ run }) {
    await run(query(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`));
    const made = await run(query(`CREATE KEYSPACE ${KEYSPACE} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`));
    assert.strictEqual(made.getSchemaChange().getKeyspace(), KEYSPACE);
    await run(query(`CREATE TYPE ${KEYSPACE}.address (street text, zip int)`));
    await run(query(`CREATE TABLE ${KEYSPACE}.kv (k int, c int, v text, PRIMARY KEY (k, c))`));
  },

  async types({ run }) {
    const all = cases();
    const parameters = new QueryParameters();
    const keyspace = new (require('google-protobuf/google/protobuf/wrappers_pb.js').StringValue)();
    keyspace.setValue(KEYSPACE);
    parameters.setKeyspace(keyspace);
    await run(query(`CREATE TABLE types (id int PRIMARY KEY, ${all.map(([type], at) => `c${at} ${type}`).join(', ')})`, [], parameters));
    const columns = all.map((_, at) => `c${at}`).join(', ');
    await run(query(`INSERT INTO types (id, ${columns}) VALUES (?${', ?'.repeat(all.length)})`, [int(1), ...all.map(([, given]) => given)], parameters));
    const row = (await run(query(`SELECT ${columns} FROM types WHERE id = ?`, [int(1)], parameters))).getResultSet().getRowsList()[0].getValuesList();
    all.forEach(([type, given, read], at) => assert.deepStrictEqual(read(row[at]), read(given), type));
  },

  async batches_and_pages({ client, run, metadata }) {
    const batch = new Batch();
    batch.setQueriesList(Array.from({ length: 25 }, (_, c) => {
      const member = new BatchQuery();
      member.setCql(`INSERT INTO ${KEYSPACE}.kv (k, c, v) VALUES (?, ?, ?)`);
      const values = new Values();
      values.setValuesList([int(1), int(c), text(`v${c}`)]);
      member.setValues(values);
      return member;
    }));
    await client.executeBatch(batch, await metadata());
    const { Int32Value } = require('google-protobuf/google/protobuf/wrappers_pb.js');
    const parameters = new QueryParameters();
    const size = new Int32Value();
    size.setValue(10);
    parameters.setPageSize(size);
    const sizes = [];
    for (;;) {
      const rows = (await run(query(`SELECT c FROM ${KEYSPACE}.kv WHERE k = 1`, [], parameters))).getResultSet();
      sizes.push(rows.getRowsList().length);
      if (!rows.getPagingState()) break;
      parameters.setPagingState(rows.getPagingState());
    }
    assert.deepStrictEqual(sizes, [10, 10, 5]);
  },

  async errors({ run }) {
    const of = async (cql) => run(query(cql)).then(() => assert.fail(cql), (error) => error);
    const invalid = await of(`SELECT * FROM ${KEYSPACE}.none`);
    assert.strictEqual(invalid.code, grpc.status.INVALID_ARGUMENT);
    assert.ok(invalid.details.includes('table none does not exist'), invalid.details);
    const exists = await of(`CREATE TABLE ${KEYSPACE}.kv (k int PRIMARY KEY)`);
    assert.strictEqual(exists.code, grpc.status.ALREADY_EXISTS);
    assert.strictEqual(exists.metadata.get('stargate.AlreadyExists-bin').length, 1);
  },
};

async function main() {
  const token = new stargate.StargateTableBasedToken({
    authEndpoint: `http://${ADDRESS}/v1/auth`, username: 'cassandra', password: 'cassandra',
  });
  const plain = new stargate.StargateClient(ADDRESS, grpc.credentials.createInsecure());
  const client = stargate.promisifyStargateClient(plain);
  const metadata = () => token.generateMetadata({ service_url: '' });
  const run = async (asked) => client.executeQuery(asked, await metadata());
  let failed = false;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test({ client, anonymous: client, run, metadata });
      console.log(`ok ${name}`);
    } catch (error) {
      console.error(error);
      console.log(`FAIL ${name}: ${String(error.message).split('\n')[0]}`);
      failed = true;
    }
  }
  plain.close();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => {
  console.log(`FAIL connect: ${error}`);
  process.exit(1);
});
